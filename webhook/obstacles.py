"""What stands in the way of an injection: names of ours that something else in the pod has.

Tenants name the volumes and claims of their VMs, and these names reach the pod: one's own volume under the name of the
sidecar's state would let a tenant choose any device of the node.
"""

from dataclasses import dataclass
from typing import NamedTuple

from dra.contract import (
    PLACEHOLDER_ENV,
    SIDECAR_CONTAINER,
    SOCKET_DIR,
    SOCKET_VOLUME,
    STATE_VOLUME,
    TOKEN_VOLUME,
)
from dra.errors import Refused
from dra.reasons import Reason
from webhook.decision import RawObject
from webhook.raw import named

_CONTAINERS = (SIDECAR_CONTAINER,)
_VOLUMES = (STATE_VOLUME, TOKEN_VOLUME)
_VARIABLES = (PLACEHOLDER_ENV,)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A name that dravirt needs, and the field in which something else has it."""

    name: str
    field: str

    def error(self) -> Refused:
        """Return the error that refuses the pod, to be raised."""
        message = f"{self.name!r} is a name that dravirt needs: rename it in the VM"
        return Refused(Reason.NAME_CONFLICT, message, path=self.field)


class PodParts(NamedTuple):
    """The lists of a pod that an injection adds to and a tenant's names reach."""

    containers: list[RawObject]
    init_containers: list[RawObject]
    volumes: list[RawObject]
    variables: list[RawObject]
    """Of the container that runs the VM."""
    mounts: list[RawObject]
    """Of that container as well."""


def find_obstacle(parts: PodParts, compute: int | None) -> Obstacle | None:
    """Return the first thing in the way in a pod whose container `compute` runs the VM; its claims apart."""
    for items, names, field in (
        (parts.containers, _CONTAINERS, "spec.containers"),
        (parts.init_containers, _CONTAINERS, "spec.initContainers"),
        (parts.volumes, _VOLUMES, "spec.volumes"),
        (parts.variables, _VARIABLES, f"spec.containers[{compute}].env"),
    ):
        for index, item in enumerate(items):
            if item.get("name") in names:
                return Obstacle(item["name"], f"{field}[{index}]")
    return _strange_volume(parts.volumes) or _strange_mount(parts.mounts, f"spec.containers[{compute}].volumeMounts")


def _strange_volume(volumes: list[RawObject]) -> Obstacle | None:
    """Return a socket volume that is not KubeVirt's own, which is an emptyDir."""
    index = named(volumes, SOCKET_VOLUME)
    if index is None or "emptyDir" in volumes[index]:
        return None
    return Obstacle(SOCKET_VOLUME, f"spec.volumes[{index}]")


def _strange_mount(mounts: list[RawObject], field: str) -> Obstacle | None:
    """Return a mount of the socket volume elsewhere, or of another volume where virt-launcher looks for sockets."""
    for index, mount in enumerate(mounts):
        if (mount.get("mountPath") == SOCKET_DIR) != (mount.get("name") == SOCKET_VOLUME):
            return Obstacle(SOCKET_VOLUME, f"{field}[{index}]")
    return None
