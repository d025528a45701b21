"""The patch of a launcher pod: claims, hook sidecar, and what makes virt-launcher wait for it.

Everything is found by name and added beside what is there; nothing is replaced that is not ours. `webhook.target` has
looked before whether anything stands in the way.
"""

import json

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
from dra.intent import Intent, Mode
from dra.version import __version__
from webhook import sidecar
from webhook.annotation import Asked
from webhook.config import Config
from webhook.decision import RawObject
from webhook.launcher import Launcher
from webhook.patch import Operation, append, prepend, put, remove, replace
from webhook.quantity import GI, is_quantity, plus
from webhook.raw import mapping, mappings, name_of, named
from webhook.target import Target

PROVISIONING = "provisioning"
SKIPPED = "skipped"


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
    return (
        *_claims(launcher.pod, asked),
        *_without_placeholder(launcher),
        *mark(launcher, PROVISIONING, asked),
    )


def mark(launcher: Launcher, mode: str, asked: Asked) -> tuple[Operation, ...]:
    """Return the operations that mark what was done: by which version, how, and for which devices."""
    marker = json.dumps({"version": __version__, "mode": mode, "devices": asked.device_names}, separators=(",", ":"))
    return tuple(put(launcher.pod, {INJECTED_ANNOTATION: marker}, "metadata", "annotations"))


def _claims(pod: RawObject, asked: Asked) -> list[Operation]:
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
        if is_quantity(memory):  # (what is none is for the API server to refuse)
            field = ("spec", "containers", target.compute, "resources", side, "memory")
            operations.append(replace(plus(memory, GI), *field))
    return operations


def _missing_volumes(launcher: Launcher) -> list[dict[str, object]]:
    present = named(mappings(launcher.pod, "spec", "volumes"), SOCKET_VOLUME) is not None
    return [{"name": name, "emptyDir": {}} for name in ([] if present else [SOCKET_VOLUME]) + [STATE_VOLUME]]


def _missing_secrets(launcher: Launcher, config: Config) -> list[dict[str, str]]:
    present = {name_of(secret) for secret in mappings(launcher.pod, "spec", "imagePullSecrets")}
    return [{"name": name} for name in config.sidecar.image_pull_secrets if name not in present]
