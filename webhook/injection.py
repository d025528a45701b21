"""The patch of a launcher pod: claims, hook sidecar, and what makes virt-launcher wait for it.

Everything is found by name and added beside what is there; nothing is replaced that is not ours.
"""

import json
from collections.abc import Sequence

from dra.contract import (
    INJECTED_ANNOTATION,
    INJECTED_LABEL,
    PLACEHOLDER_ENV,
    PLACEHOLDER_RESOURCE,
    SOCKET_DIR,
    SOCKET_VOLUME,
    STATE_VOLUME,
    placeholder_uuid,
)
from dra.errors import Refused
from dra.intent import Intent, Mode
from dra.reasons import Reason
from dra.version import __version__
from webhook import sidecar
from webhook.annotation import Asked
from webhook.config import Config
from webhook.devices import check_claims
from webhook.launcher import PROVISIONING, HookFlag, Launcher
from webhook.obstacles import Obstacle
from webhook.patch import Operation, Path, remove, replace
from webhook.quantity import GI, is_quantity, plus


def inject(launcher: Launcher, asked: Asked, config: Config) -> list[Operation]:
    """Return the operations that inject claims and sidecar.

    Raises Refused where the pod lacks what they change, or a name of ours is taken.
    """
    compute, hook_flag = _find_compute(launcher)
    if launcher.obstacle:
        raise launcher.obstacle.error()
    ground = launcher.ground
    references = [reference for claim in asked.claims for reference in claim.as_container_claims()]
    return [
        *_claims(launcher, asked),
        *ground.append(_missing_volumes(launcher, config), "spec", "volumes"),
        *ground.append(_missing_secrets(launcher, config), "spec", "imagePullSecrets"),
        *ground.prepend(_sidecar(launcher, references, asked, config), "spec", "initContainers"),
        replace(hook_flag.incremented(), *compute, hook_flag.field, hook_flag.index),
        *ground.append(references, *compute, "resources", "claims"),
        *ground.append(_missing_mounts(launcher), *compute, "volumeMounts"),
        *(
            _more_memory(launcher, compute)
            if config.mode is Mode.APPEND
            else _fill_placeholders(launcher, compute, asked)
        ),
        *ground.put({INJECTED_LABEL: "true"}, "metadata", "labels"),
        *mark(launcher, config.mode, asked),
    ]


def steer(launcher: Launcher, asked: Asked) -> list[Operation]:
    """Return the operations that let the claims steer an ephemeral provisioning pod to a node with the devices.

    Claims that no container refers to are allocated by the scheduler and prepared by the kubelet, and no container is
    given their devices. Raises Refused where a name of ours is taken.
    """
    compute = ("spec", "containers", launcher.compute or 0)
    return [
        *_claims(launcher, asked),
        *_remove_placeholder(launcher, compute),
        *mark(launcher, PROVISIONING, asked),
    ]


def mark(launcher: Launcher, mode: str, asked: Asked) -> list[Operation]:
    """Return the operations that mark what was done: by which version, how, and for which devices."""
    marker = json.dumps({"version": __version__, "mode": mode, "devices": asked.device_names}, separators=(",", ":"))
    return launcher.ground.put({INJECTED_ANNOTATION: marker}, "metadata", "annotations")


def no_compute() -> Refused:
    """Return the error for a pod that runs no VM, to be raised."""
    message = "has no container named compute: is it a virt-launcher that dravirt knows?"
    return Refused(Reason.NO_COMPUTE, message, path="spec.containers")


def _find_compute(launcher: Launcher) -> tuple[Path, HookFlag]:
    if launcher.compute is None:
        raise no_compute()
    if launcher.hook_flag is None:
        message = "has no --hook-sidecars with a number in command or args: is it a virt-launcher that dravirt knows?"
        raise Refused(Reason.NO_HOOK_FLAG, message, path=f"spec.containers[{launcher.compute}]")
    return ("spec", "containers", launcher.compute), launcher.hook_flag


def _claims(launcher: Launcher, asked: Asked) -> list[Operation]:
    ours = {claim.name for claim in asked.claims}
    for index, name, _, _ in launcher.claims:
        if name in ours:
            raise Obstacle(name, f"spec.resourceClaims[{index}]").error()
    check_claims(asked, {index: claim for index, _, claim, _ in launcher.claims}, "spec.resourceClaims")
    return launcher.ground.append([claim.as_pod_claim() for claim in asked.claims], "spec", "resourceClaims")


def _sidecar(launcher: Launcher, references: list[dict[str, str]], asked: Asked, config: Config) -> dict[str, object]:
    intent = Intent.of(
        config.mode,
        asked.claims,
        asked.requests,
        service=config.allocation_service,
        attributes=config.attributes,
        environment=config.environment,
    )
    return sidecar.container(
        config.sidecar,
        intent.to_json(),
        references,
        guaranteed=launcher.is_guaranteed,
        limit_cpu=launcher.limits_cpu,
        with_token=config.allocation_service is not None,
    )


def _fill_placeholders(launcher: Launcher, compute: Path, asked: Asked) -> list[Operation]:
    """Return the operations that let virt-launcher render the placeholders, which no device plugin fills.

    Never the PCI_RESOURCE_ form of the variable as well: KubeVirt tries both and would count the devices twice.
    """
    uuids = ",".join(placeholder_uuid(index) for index in range(len(asked.device_names)))
    variables = [{"name": PLACEHOLDER_ENV, "value": uuids}]
    return launcher.ground.append(variables, *compute, "env") + _remove_placeholder(launcher, compute)


def _remove_placeholder(launcher: Launcher, compute: Path) -> list[Operation]:
    """Return the operations that take the resource which no node has out of compute's requests and limits."""
    return [remove(*compute, "resources", side, PLACEHOLDER_RESOURCE) for side in launcher.placeholder_sides]


def _more_memory(launcher: Launcher, compute: Path) -> list[Operation]:
    """Return the operations that add the 1Gi which KubeVirt adds for a VFIO device that it knows of.

    Source: KubeVirt pkg/hypervisor/kvm/hypervisorbackend.go, GetMemoryOverhead.
    """
    return [
        replace(plus(memory, GI), *compute, "resources", side, "memory")
        for side, memory in launcher.memory
        if is_quantity(memory)  # (what is none is for the API server to refuse)
    ]


def _missing_volumes(launcher: Launcher, config: Config) -> list[dict[str, object]]:
    names = [STATE_VOLUME] if launcher.has_socket_volume else [SOCKET_VOLUME, STATE_VOLUME]
    token = [] if config.allocation_service is None else [sidecar.token_volume()]
    return [{"name": name, "emptyDir": {}} for name in names] + token


def _missing_mounts(launcher: Launcher) -> Sequence[dict[str, str]]:
    return [] if launcher.mounts_sockets else [{"name": SOCKET_VOLUME, "mountPath": SOCKET_DIR}]


def _missing_secrets(launcher: Launcher, config: Config) -> list[dict[str, str]]:
    return [{"name": name} for name in config.sidecar.image_pull_secrets if name not in launcher.pull_secrets]
