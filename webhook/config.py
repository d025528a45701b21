"""What an installation may set, with a default for everything: `render` and `simulate` work without a file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dra.attributes import AttributeNames
from dra.contract import DEFAULT_NAMESPACE, SERVICE_NAME
from dra.intent import Mode, ServiceAddress
from dra.version import __version__


@dataclass(frozen=True, slots=True)
class Resources:
    """Requests and limits of the sidecar, as Kubernetes quantities.

    `cpu_limit` counts only where the sidecar gets a CPU limit: beside a compute that has one, or in a Guaranteed pod,
    where requests equal limits. The memory is request and limit at once: the sidecar's need does not vary.
    """

    cpu_request: str = "50m"
    cpu_limit: str = "200m"
    memory: str = "64M"


@dataclass(frozen=True, slots=True)
class SidecarConfig:
    """How the hook sidecar is run. Never from the VM: an owner must not choose the image."""

    image: str = f"dravirt-hooksidecar:{__version__}"
    resources: Resources = field(default_factory=Resources)
    image_pull_secrets: tuple[str, ...] = ()
    log_level: str = "info"


@dataclass(frozen=True, slots=True)
class Installation:
    """What the process is told of its installation: defaults of what the file may leave out."""

    sidecar_image: str = SidecarConfig().image
    service_host: str = f"{SERVICE_NAME}.{DEFAULT_NAMESPACE}.svc"
    """The name of the Service by which sidecars reach the server, and which its certificate has."""
    knows_authorities: bool = True
    """True where the authorities of the server's certificate are known, so that the file need not name them."""


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration of an installation. Source of the keys: `webhook.configfile`."""

    mode: Mode = Mode.PLACEHOLDER
    sidecar: SidecarConfig = field(default_factory=SidecarConfig, hash=False)  # (it is hashed for each pod)
    kubevirt_namespace: str = "kubevirt"
    attributes: Mapping[str, AttributeNames] = field(default_factory=dict, hash=False)
    environment: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    allocation_service: ServiceAddress | None = field(default=None, hash=False)
    """Where sidecars ask for their devices; None: switched off."""
    ca_file: Path | None = None
    """What the authorities in `allocation_service` are read from; None: they are those of the server's certificate."""

    @property
    def lacks_authority(self) -> bool:
        """True while sidecars could not be told whom to trust: no pod may get one then."""
        return self.allocation_service is not None and not self.allocation_service.ca

    @property
    def kubevirt_controller(self) -> str:
        """The user that creates launcher pods."""
        return f"system:serviceaccount:{self.kubevirt_namespace}:kubevirt-controller"
