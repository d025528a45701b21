"""A case: a folder with everything that one VM's way from annotation to host device needs.

virtualmachine.yaml          the VM with its annotation
resourceclaimtemplates.yaml  what the annotation names (or resourceclaims.yaml alone for a direct claim)
resourceclaims.yaml          the claims as the scheduler allocated them
resourceslices.yaml          what the DRA driver published
launcher-pod.yaml            the pod as KubeVirt renders it for the VMI with its placeholders
domain.xml                   the domain as virt-launcher hands it to its hooks
node/                        the node: sys/, dev/ and the driver's metadata files under var/run/
config.yaml                  the installation's configuration (optional)
environment.yaml             what the driver's CDI spec sets in the pod's containers (optional)
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.files import read_bytes
from cli.manifests import read_manifest, read_manifests
from dra.errors import Refused
from dra.reasons import Reason


@dataclass(frozen=True, slots=True)
class Case:
    """What the folder of a case holds."""

    folder: Path
    vm: dict[str, Any]
    pod: dict[str, Any]
    claims: tuple[dict[str, Any], ...]
    domain: bytes
    node: Path
    config: Path | None
    environment: dict[str, str]

    @property
    def namespace(self) -> str:
        """The namespace of the VM."""
        return str(self.vm["metadata"].get("namespace", "default"))


def read_case(folder: Path) -> Case:
    """Return the case in `folder`. Raises Refused where a file is missing or wrong."""
    if not folder.is_dir():
        raise Refused(
            Reason.UNREADABLE,
            "is no folder: name the folder of a case, such as examples/mig-backed-mdev",
            path=str(folder),
        )
    node = folder / "node"
    if not (node / "sys").is_dir():
        raise Refused(Reason.UNREADABLE, "has no sys/: a case needs the files of its node", path=str(node))
    config, environment = folder / "config.yaml", folder / "environment.yaml"
    return Case(
        folder=folder,
        vm=_read_object(folder / "virtualmachine.yaml", "VirtualMachine"),
        pod=_read_object(folder / "launcher-pod.yaml", "Pod"),
        claims=tuple(read_manifests(str(folder / "resourceclaims.yaml"))),
        domain=read_bytes(str(folder / "domain.xml")),
        node=node.absolute(),
        config=config if config.exists() else None,
        environment={str(k): str(v) for k, v in read_manifest(str(environment)).items()}
        if environment.exists()
        else {},
    )


def _read_object(file: Path, kind: str) -> dict[str, Any]:
    item = read_manifest(str(file))
    if item.get("kind") != kind or not isinstance(item.get("metadata"), dict):
        raise Refused(Reason.UNREADABLE, f"must hold a {kind} with metadata", path=str(file))
    return item
