"""What stands in the way of an injection: names of ours that something else in the pod has.

A tenant names the volumes and claims of his VM, and these names reach the pod: a volume of his under the name of the
sidecar's state would let him choose any device of the node.
"""

from collections.abc import Iterator
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
from webhook.raw import mappings, named

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


def find_obstacle(parts: PodParts, compute: int | None) -> Obstacle | None:
    """Return the first thing in the way in a pod whose container `compute` runs the VM; its claims apart."""
    launcher = {} if compute is None else parts.containers[compute]
    field = f"spec.containers[{compute}]"
    obstacles = [
        *_taken(parts.containers, _CONTAINERS, "spec.containers"),
        *_taken(parts.init_containers, _CONTAINERS, "spec.initContainers"),
        *_taken(parts.volumes, _VOLUMES, "spec.volumes"),
        *_taken(mappings(launcher, "env"), _VARIABLES, f"{field}.env"),
        *_strange_sockets(parts.volumes, mappings(launcher, "volumeMounts"), f"{field}.volumeMounts"),
    ]
    return obstacles[0] if obstacles else None


def _taken(items: list[RawObject], names: tuple[str, ...], field: str) -> list[Obstacle]:
    return [
        Obstacle(item["name"], f"{field}[{index}]") for index, item in enumerate(items) if item.get("name") in names
    ]


def _strange_sockets(volumes: list[RawObject], mounts: list[RawObject], field: str) -> Iterator[Obstacle]:
    """Yield a socket volume that is not KubeVirt's own: an emptyDir, mounted where virt-launcher looks for sockets."""
    sockets = named(volumes, SOCKET_VOLUME)
    if sockets is not None and "emptyDir" not in volumes[sockets]:
        yield Obstacle(SOCKET_VOLUME, f"spec.volumes[{sockets}]")
    for index, mount in enumerate(mounts):
        if (mount.get("mountPath") == SOCKET_DIR) != (mount.get("name") == SOCKET_VOLUME):
            yield Obstacle(SOCKET_VOLUME, f"{field}[{index}]")
