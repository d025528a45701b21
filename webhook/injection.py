"""The patch of a launcher pod: claims, hook sidecar, and what makes virt-launcher wait for it.

Everything is found by name and added beside what is there; nothing is replaced that is not ours. The pod must have
passed `check` before.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from dra.contract import (
    INJECTED_ANNOTATION,
    INJECTED_LABEL,
    PLACEHOLDER_ENV,
    PLACEHOLDER_RESOURCE,
    SIDECAR_CONTAINER,
    SOCKET_DIR,
    SOCKET_VOLUME,
    STATE_VOLUME,
    TOKEN_VOLUME,
    placeholder_uuid,
)
from dra.errors import Refused
from dra.intent import Intent, Mode
from dra.reasons import Reason
from dra.version import __version__
from webhook import sidecar
from webhook.annotation import Asked
from webhook.config import Config
from webhook.launcher import HookFlag, Launcher
from webhook.patch import Operation, append, prepend, put, remove, replace
from webhook.quantity import GI, plus
from webhook.raw import mapping, mappings, named

PROVISIONING = "provisioning"
SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Target:
    """The parts of a launcher pod that an injection changes."""

    launcher: Launcher
    compute: int
    hook_flag: HookFlag


def check(launcher: Launcher, asked: Asked) -> Target:
    """Return what an injection changes. Raises Refused where the pod lacks it or a name of ours is taken.

    A tenant names the volumes and claims of his VM, and these names reach the pod: a volume of his under our state's
    name would let him choose any device of the node.
    """
    spec = mapping(launcher.pod, "spec")
    if launcher.compute_index is None:
        raise Refused(Reason.NO_COMPUTE, "has no container named compute", path="spec.containers")
    if launcher.hook_flag is None:
        field = f"spec.containers[{launcher.compute_index}]"
        raise Refused(Reason.NO_HOOK_FLAG, "has no --hook-sidecars with a number in command or args", path=field)
    for kind in ("containers", "initContainers"):
        _refuse_taken(mappings(spec, kind), {SIDECAR_CONTAINER}, f"spec.{kind}")
    _refuse_taken(mappings(spec, "volumes"), {STATE_VOLUME, TOKEN_VOLUME}, "spec.volumes")
    _refuse_taken(mappings(spec, "resourceClaims"), {claim.name for claim in asked.claims}, "spec.resourceClaims")
    _refuse_taken(mappings(launcher.compute, "env"), {PLACEHOLDER_ENV}, "compute.env")
    sockets = named(mappings(spec, "volumes"), SOCKET_VOLUME)
    if sockets is not None and "emptyDir" not in mappings(spec, "volumes")[sockets]:
        raise _taken(SOCKET_VOLUME, f"spec.volumes[{sockets}]")
    for mount in mappings(launcher.compute, "volumeMounts"):
        if (mount.get("mountPath") == SOCKET_DIR) != (mount.get("name") == SOCKET_VOLUME):
            raise _taken(str(mount.get("name")), "compute.volumeMounts")
    return Target(launcher, launcher.compute_index, launcher.hook_flag)


def inject(target: Target, asked: Asked, config: Config) -> tuple[Operation, ...]:
    """Return the operations that inject claims and sidecar."""
    pod = target.launcher.pod
    references = [reference for claim in asked.claims for reference in claim.as_container_claims()]
    intent = Intent.of(
        config.mode,
        asked.claims,
        asked.requests,
        service=config.allocation_service,
        attributes=config.attributes,
        environment=config.environment,
    )
    container = sidecar.container(
        config.sidecar,
        intent.to_json(),
        references,
        guaranteed=sidecar.is_guaranteed(pod),
        limit_cpu="cpu" in mapping(target.launcher.compute, "resources", "limits"),
    )
    return (
        *_claims(pod, asked),
        *append(pod, _missing_volumes(target.launcher), "spec", "volumes"),
        *append(pod, _missing_secrets(target.launcher, config), "spec", "imagePullSecrets"),
        prepend(pod, container, "spec", "initContainers"),
        *_compute(target, references, asked, config.mode),
        *put(pod, {INJECTED_LABEL: "true"}, "metadata", "labels"),
        *mark(target.launcher, config.mode, asked),
    )


def steer(launcher: Launcher, asked: Asked) -> tuple[Operation, ...]:
    """Return the operations that let the claims steer an ephemeral provisioning pod to a node with the devices.

    Claims that no container refers to are allocated by the scheduler and not prepared by the kubelet.
    """
    _refuse_taken(
        mappings(launcher.pod, "spec", "resourceClaims"), {c.name for c in asked.claims}, "spec.resourceClaims"
    )
    return (
        *_claims(launcher.pod, asked),
        *_without_placeholder(launcher),
        *mark(launcher, PROVISIONING, asked),
    )


def mark(launcher: Launcher, mode: str, asked: Asked) -> tuple[Operation, ...]:
    """Return the operations that mark what was done: by which version, how, and for which devices."""
    marker = json.dumps({"version": __version__, "mode": mode, "devices": asked.device_names}, separators=(",", ":"))
    return tuple(put(launcher.pod, {INJECTED_ANNOTATION: marker}, "metadata", "annotations"))


def _claims(pod: Mapping[str, object], asked: Asked) -> list[Operation]:
    return append(pod, [claim.as_pod_claim() for claim in asked.claims], "spec", "resourceClaims")


def _compute(target: Target, references: list[dict[str, str]], asked: Asked, mode: Mode) -> list[Operation]:
    """Return the operations on compute: the claims' devices, one more hook socket, and the placeholders' UUIDs."""
    pod, launcher = target.launcher.pod, target.launcher
    at = ("spec", "containers", target.compute)
    flag = target.hook_flag
    operations = [replace(flag.incremented(), *at, flag.field, flag.index)]
    operations += append(pod, references, *at, "resources", "claims")
    if named(mappings(launcher.compute, "volumeMounts"), SOCKET_VOLUME) is None:
        operations += append(pod, [{"name": SOCKET_VOLUME, "mountPath": SOCKET_DIR}], *at, "volumeMounts")
    if mode is Mode.APPEND:
        return operations + _more_memory(target)
    # Never the PCI_RESOURCE_ form as well: KubeVirt tries both and would count the devices twice.
    uuids = ",".join(placeholder_uuid(index) for index in range(len(asked.device_names)))
    operations += append(pod, [{"name": PLACEHOLDER_ENV, "value": uuids}], *at, "env")
    return operations + _without_placeholder(launcher)


def _without_placeholder(launcher: Launcher) -> list[Operation]:
    """Return the operations that take the resource which no node has out of compute's requests and limits."""
    return [
        remove("spec", "containers", launcher.compute_index or 0, "resources", side, PLACEHOLDER_RESOURCE)
        for side in ("limits", "requests")
        if PLACEHOLDER_RESOURCE in mapping(launcher.compute, "resources", side)
    ]


def _more_memory(target: Target) -> list[Operation]:
    """Return the operations that add the 1Gi which KubeVirt adds for a VFIO device that it knows of.

    Source: KubeVirt pkg/hypervisor/kvm/hypervisorbackend.go, GetMemoryOverhead.
    """
    operations = []
    for side in ("requests", "limits"):
        memory = mapping(target.launcher.compute, "resources", side).get("memory")
        if memory is not None:
            field = ("spec", "containers", target.compute, "resources", side, "memory")
            operations.append(replace(plus(memory, GI), *field))
    return operations


def _missing_volumes(launcher: Launcher) -> list[dict[str, object]]:
    present = named(mappings(launcher.pod, "spec", "volumes"), SOCKET_VOLUME) is not None
    return [{"name": name, "emptyDir": {}} for name in ([] if present else [SOCKET_VOLUME]) + [STATE_VOLUME]]


def _missing_secrets(launcher: Launcher, config: Config) -> list[dict[str, str]]:
    present = {secret.get("name") for secret in mappings(launcher.pod, "spec", "imagePullSecrets")}
    return [{"name": name} for name in config.sidecar.image_pull_secrets if name not in present]


def _refuse_taken(items: list[Mapping[str, object]], names: set[str], field: str) -> None:
    for index, item in enumerate(items):
        if item.get("name") in names:
            raise _taken(str(item.get("name")), f"{field}[{index}]")


def _taken(name: str, field: str) -> Refused:
    return Refused(Reason.NAME_CONFLICT, f"{name!r:.80} is a name that dravirt needs: rename it in the VM", path=field)
