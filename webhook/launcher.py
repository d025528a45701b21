"""What a pod under review is: the facts about a virt-launcher pod, gathered once, before anything is decided."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dra.contract import (
    COMPUTE_CONTAINER,
    INJECTED_ANNOTATION,
    PLACEHOLDER_RESOURCE,
    SIDECAR_CONTAINER,
)
from webhook.decision import RawObject
from webhook.quantity import parse_quantity
from webhook.raw import annotations, labels, mapping, mappings, named, texts

_PROVISIONING = "kubevirt.io/ephemeral-provisioning"
_HOOK_FLAG = "--hook-sidecars"
_COUNT = re.compile(r"[0-9]{1,4}")


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

    pod: RawObject
    compute_index: int | None
    compute: RawObject
    hook_flag: HookFlag | None
    placeholders: int
    """How many devices of the placeholder resource compute asks for; -1 where that is no whole number."""
    marker: Mapping[str, Any] | None
    """The marker annotation. VMI annotations reach the pod, so it proves nothing by itself."""
    has_sidecar: bool
    is_migration_target: bool
    is_provisioning: bool
    """A pod that only binds storage, and gets the VMI's resources for the scheduler's sake."""

    @classmethod
    def of(cls, pod: RawObject) -> "Launcher":
        """Return the facts about `pod`."""
        containers = mappings(pod, "spec", "containers")
        index = named(containers, COMPUTE_CONTAINER)
        compute = containers[index] if index is not None else {}
        hook_flag = _find_hook_flag(compute)
        return cls(
            pod=pod,
            compute_index=index,
            compute=compute,
            hook_flag=hook_flag,
            placeholders=_count_placeholders(compute),
            marker=_read_marker(pod),
            has_sidecar=named(mappings(pod, "spec", "initContainers"), SIDECAR_CONTAINER) is not None,
            is_migration_target="kubevirt.io/migrationJobUID" in labels(pod),
            # A VM owner can write this annotation: those of a VMI reach its pods. Such a pod runs no virt-launcher.
            is_provisioning=annotations(pod).get(_PROVISIONING) == "true" and hook_flag is None,
        )

    def has_claims(self, claims: list[dict[str, str]]) -> bool:
        """True if the pod holds each of `claims`, as entries of `spec.resourceClaims`."""
        present = mappings(self.pod, "spec", "resourceClaims")
        return all(any(entry.items() >= claim.items() for entry in present) for claim in claims)


def _find_hook_flag(compute: RawObject) -> HookFlag | None:
    for field in ("command", "args"):
        items = texts(compute, field)
        for index, item in enumerate(items):
            flag, equals, number = item.partition("=")
            if flag != _HOOK_FLAG:
                continue
            if equals and _COUNT.fullmatch(number):
                return HookFlag(field, index, int(number), prefix=f"{_HOOK_FLAG}=")
            following = items[index + 1] if index + 1 < len(items) else ""
            if not equals and _COUNT.fullmatch(following):
                return HookFlag(field, index + 1, int(following))
    return None


def _count_placeholders(compute: RawObject) -> int:
    amounts = [mapping(compute, "resources", side).get(PLACEHOLDER_RESOURCE) for side in ("limits", "requests")]
    asked = next((amount for amount in amounts if amount is not None), "0")
    try:
        count = parse_quantity(asked)
    except ValueError:
        return -1
    return int(count) if count == count.to_integral_value() else -1


def _read_marker(pod: RawObject) -> Mapping[str, Any] | None:
    text = annotations(pod).get(INJECTED_ANNOTATION)
    if text is None:
        return None
    try:
        marker = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return {}
    return marker if isinstance(marker, dict) else {}
