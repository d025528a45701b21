"""What a pod under review is: the facts about a virt-launcher pod, gathered once, before anything is decided.

The facts are a small hashable value: pods of one shape have the same, and so the same decision.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from dra.claims import PodClaim
from dra.contract import (
    COMPUTE_CONTAINER,
    INJECTED_ANNOTATION,
    PLACEHOLDER_RESOURCE,
    POD_CLAIM_PREFIX,
    SIDECAR_CONTAINER,
    SOCKET_VOLUME,
)
from dra.intent import Mode
from webhook.decision import RawObject
from webhook.obstacles import Obstacle, PodParts, find_obstacle
from webhook.patch import Ground, Path
from webhook.quantity import parse_quantity
from webhook.raw import labels, mapping, mappings, name_of, named
from webhook.sidecar import is_guaranteed

PROVISIONING = "provisioning"
SKIPPED = "skipped"
"""The modes of a marker on pods that get no sidecar."""
_MODES = frozenset({*Mode, PROVISIONING, SKIPPED})

_EPHEMERAL = "kubevirt.io/ephemeral-provisioning"
_LONGEST = 253
_MOST = 64
"""Characters of a name and entries of a list that are looked at: more than a pod that the API server takes has."""
_HOOK_FLAG = "--hook-sidecars"
_HOOK_FLAG_WITH = f"{_HOOK_FLAG}="
_COUNT = re.compile(r"[0-9]{1,4}")
_IN_METADATA: tuple[Path, ...] = (("metadata", "annotations"), ("metadata", "labels"))
_IN_SPEC: tuple[Path, ...] = (
    ("spec", "imagePullSecrets"),
    ("spec", "initContainers"),
    ("spec", "resourceClaims"),
    ("spec", "volumes"),
)


def is_launcher(pod: RawObject) -> bool:
    """True for a pod that KubeVirt makes for a VMI. Anyone can write the label, so the owner counts as well.

    Source: KubeVirt pkg/virt-controller/services/template.go.
    """
    if labels(pod).get("kubevirt.io") != "virt-launcher":
        return False
    for owner in mappings(pod, "metadata", "ownerReferences"):
        is_vmi = owner.get("kind") == "VirtualMachineInstance"
        if is_vmi and owner.get("controller") is True and str(owner.get("apiVersion")).startswith("kubevirt.io/"):
            return True
    return False


class HookFlag(Struct, frozen=True):
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


class Launcher(Struct, frozen=True):
    """The facts about one launcher pod.

    A Struct is a frozen dataclass that is made, hashed and compared in C: with dataclasses, for these facts and what
    they consist of, parsing and deciding would take a tenth longer.
    """

    compute: int | None
    """The position of the container that runs the VM."""
    hook_flag: HookFlag | None
    placeholders: int
    """How many devices of the placeholder resource compute asks for; -1 where that is no whole number."""
    placeholder_sides: tuple[str, ...]
    """Which of compute's limits and requests hold the placeholder resource."""
    memory: tuple[tuple[str, str], ...]
    """The memory in compute's limits and requests, whatever stands there."""
    limits_cpu: bool
    is_guaranteed: bool
    has_socket_volume: bool
    mounts_sockets: bool
    pull_secrets: tuple[str, ...]
    claims: tuple[tuple[int, str, str | None, str | None], ...]
    """The entries of `spec.resourceClaims` under names such as ours or with a claim that is named directly:
    position, name, claim, template."""
    marker: str | None
    """The mode in the marker annotation, "" for a strange one. VMI annotations reach the pod: it proves nothing."""
    has_sidecar: bool
    is_migration_target: bool
    is_provisioning: bool
    """A pod that only binds storage, and gets the VMI's resources for the scheduler's sake."""
    obstacle: Obstacle | None
    """What stands in the way of an injection."""
    ground: Ground

    @classmethod
    def of(cls, pod: RawObject) -> "Launcher":
        """Return the facts about `pod`."""
        metadata, spec = mapping(pod, "metadata"), mapping(pod, "spec")
        annotations = mapping(metadata, "annotations")
        containers, init_containers = mappings(spec, "containers"), mappings(spec, "initContainers")
        index = named(containers, COMPUTE_CONTAINER)
        compute = containers[index] if index is not None else {}
        volumes, mounts = mappings(spec, "volumes"), mappings(compute, "volumeMounts")
        parts = PodParts(containers, init_containers, volumes, mappings(compute, "env"), mounts)
        resources = mapping(compute, "resources")
        limits, requests = mapping(resources, "limits"), mapping(resources, "requests")
        amounts = (("limits", limits), ("requests", requests))
        holders: Iterable[tuple[Mapping[Any, Any], tuple[Path, ...]]]
        holders = zip((metadata, spec, compute, resources), _parents(index), strict=False)
        absent = [path for holder, paths in holders for path in paths if not holder.get(path[-1])]
        hook_flag = _find_hook_flag(compute)
        return cls(
            compute=index,
            hook_flag=hook_flag,
            placeholders=_count_placeholders(limits, requests),
            placeholder_sides=tuple([side for side, amount in amounts if PLACEHOLDER_RESOURCE in amount]),
            memory=tuple([(side, _quantity(amount["memory"])) for side, amount in amounts if "memory" in amount]),
            limits_cpu="cpu" in limits,
            is_guaranteed="cpu" in limits and is_guaranteed(containers + init_containers),
            has_socket_volume=named(volumes, SOCKET_VOLUME) is not None,
            mounts_sockets=named(mounts, SOCKET_VOLUME) is not None,
            pull_secrets=tuple(map(_short_name, mappings(spec, "imagePullSecrets")[:_MOST])),
            claims=tuple(_claims(mappings(spec, "resourceClaims")))[:_MOST],
            marker=_read_marker(annotations.get(INJECTED_ANNOTATION)),
            has_sidecar=named(init_containers, SIDECAR_CONTAINER) is not None,
            is_migration_target="kubevirt.io/migrationJobUID" in mapping(metadata, "labels"),
            # A VM owner can write this annotation: those of a VMI reach its pods. Such a pod runs no virt-launcher.
            is_provisioning=annotations.get(_EPHEMERAL) == "true" and hook_flag is None,
            obstacle=find_obstacle(parts, index),
            ground=Ground.of(pod, absent),
        )

    def holds(self, claims: Iterable[PodClaim]) -> bool:
        """True if the pod has each of `claims`."""
        there = {tuple(entry) for _, *entry in self.claims}
        return all((claim.name, claim.claim, claim.template) in there for claim in claims)


@lru_cache
def _parents(compute: int | None) -> tuple[tuple[Path, ...], ...]:
    """Return what an injection adds to: in metadata, in spec, in the container `compute`, in its resources."""
    if compute is None:
        return _IN_METADATA, _IN_SPEC
    container: Path = ("spec", "containers", compute)
    in_container = ((*container, "env"), (*container, "volumeMounts"))
    return _IN_METADATA, _IN_SPEC, in_container, ((*container, "resources", "claims"),)


def _find_hook_flag(compute: RawObject) -> HookFlag | None:
    for field in ("command", "args"):
        value = compute.get(field)
        items: list[object] = value if isinstance(value, list) else []
        if flag := _flag_and_number(field, items) or _flag_with_number(field, items):
            return flag
    return None


def _flag_and_number(field: str, items: list[object]) -> HookFlag | None:
    if _HOOK_FLAG not in items:
        return None
    index = items.index(_HOOK_FLAG) + 1
    number = items[index] if index < len(items) else None
    return HookFlag(field, index, int(number)) if isinstance(number, str) and _COUNT.fullmatch(number) else None


def _flag_with_number(field: str, items: list[object]) -> HookFlag | None:
    for index, item in enumerate(items):
        if isinstance(item, str) and item.startswith(_HOOK_FLAG_WITH) and _COUNT.fullmatch(item, len(_HOOK_FLAG_WITH)):
            return HookFlag(field, index, int(item[len(_HOOK_FLAG_WITH) :]), prefix=_HOOK_FLAG_WITH)
    return None


def _count_placeholders(limits: RawObject, requests: RawObject) -> int:
    asked = limits.get(PLACEHOLDER_RESOURCE)
    asked = requests.get(PLACEHOLDER_RESOURCE) if asked is None else asked
    if asked is None:
        return 0
    try:
        count = parse_quantity(asked)
    except ValueError:
        return -1
    return int(count) if count == count.to_integral_value() else -1


def _claims(entries: list[RawObject]) -> Iterator[tuple[int, str, str | None, str | None]]:
    for index, entry in enumerate(entries):
        name, claim = name_of(entry), _text(entry.get("resourceClaimName"))
        if claim is not None or name.startswith(POD_CLAIM_PREFIX):
            yield index, _short(name), claim, _text(entry.get("resourceClaimTemplateName"))


def _short_name(entry: RawObject) -> str:
    return _short(name_of(entry))


def _quantity(value: object) -> str:
    return _short(str(value)) if isinstance(value, str | int | float) else ""


def _text(value: object) -> str | None:
    return _short(value) if isinstance(value, str) else None


def _short(text: str) -> str:
    """Return a text that may be kept: the facts about hostile pods are remembered as well."""
    return text[:_LONGEST]


def _read_marker(text: Any) -> str | None:
    if text is None:
        return None
    try:
        marker = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return ""
    mode = marker.get("mode") if isinstance(marker, dict) else None
    return mode if isinstance(mode, str) and mode in _MODES else ""
