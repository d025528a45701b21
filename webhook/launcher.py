"""What a pod under review is: the facts about a virt-launcher pod, gathered once, before anything is decided.

The facts are a small hashable value: pods of one shape have the same, and so the same decision.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from dra.claims import PodClaim
from dra.contract import (
    COMPUTE_CONTAINER,
    INJECTED_ANNOTATION,
    PLACEHOLDER_RESOURCE,
    SIDECAR_CONTAINER,
    SOCKET_VOLUME,
)
from dra.intent import Mode
from webhook.decision import RawObject
from webhook.obstacles import Obstacle, find_obstacles
from webhook.patch import Ground, Path
from webhook.quantity import is_quantity, parse_quantity
from webhook.raw import annotations, labels, mapping, mappings, name_of, named, texts
from webhook.sidecar import is_guaranteed

PROVISIONING = "provisioning"
SKIPPED = "skipped"
"""The modes of a marker on pods that get no sidecar."""
_MODES = frozenset({*Mode, PROVISIONING, SKIPPED})

_EPHEMERAL = "kubevirt.io/ephemeral-provisioning"
_HOOK_FLAG = "--hook-sidecars"
_COUNT = re.compile(r"[0-9]{1,4}")
_SIDES = ("limits", "requests")
_PARENTS: tuple[Path, ...] = (
    ("metadata", "annotations"),
    ("metadata", "labels"),
    ("spec", "imagePullSecrets"),
    ("spec", "initContainers"),
    ("spec", "resourceClaims"),
    ("spec", "volumes"),
)
_PARENTS_IN_COMPUTE: tuple[Path, ...] = (("env",), ("resources", "claims"), ("volumeMounts",))


def is_launcher(pod: RawObject) -> bool:
    """True for a pod that KubeVirt makes for a VMI. Anyone can write the label, so the owner counts as well.

    Source: KubeVirt pkg/virt-controller/services/template.go.
    """
    return labels(pod).get("kubevirt.io") == "virt-launcher" and any(
        owner.get("kind") == "VirtualMachineInstance"
        and str(owner.get("apiVersion")).startswith("kubevirt.io/")
        and owner.get("controller") is True
        for owner in mappings(pod, "metadata", "ownerReferences")
    )


@dataclass(frozen=True, slots=True)
class HookFlag:
    """The `--hook-sidecars N` of virt-launcher: how many sockets it waits for, and where that stands."""

    field: str
    """`command`, or `args` in newer versions."""
    index: int
    """The item that holds the number."""
    count: int
    prefix: str = ""
    """What stands before the number in that item, where flag and number are one."""

    def incremented(self) -> str:
        """Return the item for one more socket."""
        return f"{self.prefix}{self.count + 1}"


@dataclass(frozen=True, slots=True)
class Launcher:
    """The facts about one launcher pod."""

    compute: int | None
    """The position of the container that runs the VM."""
    hook_flag: HookFlag | None
    placeholders: int
    """How many devices of the placeholder resource compute asks for; -1 where that is no whole number."""
    placeholder_sides: tuple[str, ...]
    """Which of compute's limits and requests hold the placeholder resource."""
    memory: tuple[tuple[str, str], ...]
    """The memory in compute's limits and requests."""
    limits_cpu: bool
    is_guaranteed: bool
    has_socket_volume: bool
    mounts_sockets: bool
    pull_secrets: tuple[str, ...]
    claims: tuple[tuple[str, object, object], ...]
    """The entries of `spec.resourceClaims`: name, claim, template."""
    marker: str | None
    """The mode in the marker annotation, "" for a strange one. VMI annotations reach the pod: it proves nothing."""
    has_sidecar: bool
    is_migration_target: bool
    is_provisioning: bool
    """A pod that only binds storage, and gets the VMI's resources for the scheduler's sake."""
    obstacles: tuple[Obstacle, ...]
    ground: Ground

    @classmethod
    def of(cls, pod: RawObject) -> "Launcher":
        """Return the facts about `pod`."""
        containers, init_containers = mappings(pod, "spec", "containers"), mappings(pod, "spec", "initContainers")
        index = named(containers, COMPUTE_CONTAINER)
        compute = containers[index] if index is not None else {}
        hook_flag = _find_hook_flag(compute)
        limits = mapping(compute, "resources", "limits")
        return cls(
            compute=index,
            hook_flag=hook_flag,
            placeholders=_count_placeholders(compute),
            placeholder_sides=tuple(
                side for side in _SIDES if PLACEHOLDER_RESOURCE in mapping(compute, "resources", side)
            ),
            memory=_memory(compute),
            limits_cpu="cpu" in limits,
            is_guaranteed=is_guaranteed(containers + init_containers),
            has_socket_volume=named(mappings(pod, "spec", "volumes"), SOCKET_VOLUME) is not None,
            mounts_sockets=named(mappings(compute, "volumeMounts"), SOCKET_VOLUME) is not None,
            pull_secrets=tuple(map(name_of, mappings(pod, "spec", "imagePullSecrets"))),
            claims=_claims(pod),
            marker=_read_marker(pod),
            has_sidecar=named(init_containers, SIDECAR_CONTAINER) is not None,
            is_migration_target="kubevirt.io/migrationJobUID" in labels(pod),
            # A VM owner can write this annotation: those of a VMI reach its pods. Such a pod runs no virt-launcher.
            is_provisioning=annotations(pod).get(_EPHEMERAL) == "true" and hook_flag is None,
            obstacles=find_obstacles(pod, index),
            ground=Ground.of(pod, _parents(index)),
        )

    def holds(self, claims: Iterable[PodClaim]) -> bool:
        """True if the pod has each of `claims`."""
        return all((claim.name, claim.claim, claim.template) in self.claims for claim in claims)


def _parents(compute: int | None) -> tuple[Path, ...]:
    if compute is None:
        return _PARENTS
    return _PARENTS + tuple(("spec", "containers", compute, *path) for path in _PARENTS_IN_COMPUTE)


def _find_hook_flag(compute: RawObject) -> HookFlag | None:
    for field in ("command", "args"):
        items = texts(compute, field)
        for index, item in enumerate(items):
            if not item.startswith(_HOOK_FLAG):
                continue
            flag, equals, number = item.partition("=")
            if flag == _HOOK_FLAG and equals and _COUNT.fullmatch(number):
                return HookFlag(field, index, int(number), prefix=f"{_HOOK_FLAG}=")
            following = items[index + 1] if index + 1 < len(items) else ""
            if item == _HOOK_FLAG and _COUNT.fullmatch(following):
                return HookFlag(field, index + 1, int(following))
    return None


def _count_placeholders(compute: RawObject) -> int:
    amounts = [mapping(compute, "resources", side).get(PLACEHOLDER_RESOURCE) for side in _SIDES]
    asked = next((amount for amount in amounts if amount is not None), "0")
    try:
        count = parse_quantity(asked)
    except ValueError:
        return -1
    return int(count) if count == count.to_integral_value() else -1


def _memory(compute: RawObject) -> tuple[tuple[str, str], ...]:
    amounts = ((side, mapping(compute, "resources", side).get("memory")) for side in _SIDES)
    return tuple((side, str(amount)) for side, amount in amounts if is_quantity(amount))


def _claims(pod: RawObject) -> tuple[tuple[str, object, object], ...]:
    return tuple(
        (name_of(entry), _text(entry.get("resourceClaimName")), _text(entry.get("resourceClaimTemplateName")))
        for entry in mappings(pod, "spec", "resourceClaims")
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _read_marker(pod: RawObject) -> str | None:
    text = annotations(pod).get(INJECTED_ANNOTATION)
    if text is None:
        return None
    try:
        marker = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return ""
    mode = marker.get("mode") if isinstance(marker, dict) else None
    return mode if isinstance(mode, str) and mode in _MODES else ""
