"""What of a launcher pod an injection changes, and what must not stand in its way.

A tenant names the volumes and claims of his VM, and these names reach the pod: a volume of his under the name of the
sidecar's state would let him choose any device of the node.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
from webhook.annotation import Asked
from webhook.launcher import HookFlag, Launcher
from webhook.raw import mapping, mappings, name_of, named


@dataclass(frozen=True, slots=True)
class Target:
    """The parts of a launcher pod that an injection changes."""

    launcher: Launcher
    compute: int
    hook_flag: HookFlag


def find_target(launcher: Launcher, asked: Asked) -> Target:
    """Return what an injection changes. Raises Refused where the pod lacks it or a name of ours is taken."""
    spec = mapping(launcher.pod, "spec")
    if launcher.compute_index is None:
        message = "has no container named compute: is it a virt-launcher that dravirt knows?"
        raise Refused(Reason.NO_COMPUTE, message, path="spec.containers")
    compute = f"spec.containers[{launcher.compute_index}]"
    if launcher.hook_flag is None:
        message = "has no --hook-sidecars with a number in command or args: is it a virt-launcher that dravirt knows?"
        raise Refused(Reason.NO_HOOK_FLAG, message, path=compute)
    for kind in ("containers", "initContainers"):
        _refuse_taken(mappings(spec, kind), {SIDECAR_CONTAINER}, f"spec.{kind}")
    _refuse_taken(mappings(spec, "volumes"), {STATE_VOLUME, TOKEN_VOLUME}, "spec.volumes")
    _refuse_taken(mappings(launcher.compute, "env"), {PLACEHOLDER_ENV}, f"{compute}.env")
    _check_sockets(launcher, compute)
    check_claims(launcher, asked)
    return Target(launcher, launcher.compute_index, launcher.hook_flag)


def check_claims(launcher: Launcher, asked: Asked) -> None:
    """Refuse a pod that has a claim under the name of one of ours."""
    names = {claim.name for claim in asked.claims}
    _refuse_taken(mappings(launcher.pod, "spec", "resourceClaims"), names, "spec.resourceClaims")


def _check_sockets(launcher: Launcher, compute: str) -> None:
    """Refuse a socket volume that is not KubeVirt's own: an emptyDir, mounted where virt-launcher looks for sockets."""
    volumes = mappings(launcher.pod, "spec", "volumes")
    sockets = named(volumes, SOCKET_VOLUME)
    if sockets is not None and "emptyDir" not in volumes[sockets]:
        raise _taken(SOCKET_VOLUME, f"spec.volumes[{sockets}]")
    for index, mount in enumerate(mappings(launcher.compute, "volumeMounts")):
        if (mount.get("mountPath") == SOCKET_DIR) != (mount.get("name") == SOCKET_VOLUME):
            raise _taken(SOCKET_VOLUME, f"{compute}.volumeMounts[{index}]")


def _refuse_taken(items: list[Mapping[str, Any]], names: set[str], field: str) -> None:
    for index, item in enumerate(items):
        if name_of(item) in names:
            raise _taken(name_of(item), f"{field}[{index}]")


def _taken(name: str, field: str) -> Refused:
    return Refused(Reason.NAME_CONFLICT, f"{name!r} is a name that dravirt needs: rename it in the VM", path=field)
