"""Warnings for a VM or VMI that is right but will surprise its owner."""

from dra.intent import Mode
from webhook.annotation import Asked
from webhook.decision import RawObject
from webhook.raw import annotations, mapping

NEEDS_MEMLOCK = "append mode: KubeVirt knows of no device, so memlock must come from reservedOverhead or the node"
"""Where KubeVirt knows of a VFIO device, it raises the limit itself. Source: KubeVirt pkg/hypervisor/kvm/runtime.go."""


def advice(asked: Asked, vmi: RawObject, mode: Mode) -> list[str]:
    """Return the warnings about a VMI, or a VM's template, that asks for devices: one short line each."""
    lines = [
        f"claim {claim.claim!r:.50} is used directly: clones, pools and restores would share it"
        for claim in asked.claims
        if claim.claim is not None
    ]
    if mapping(vmi, "spec").get("evictionStrategy") == "LiveMigrate":
        lines.append("evictionStrategy LiveMigrate: a VM with a GPU cannot migrate, so it blocks node drains")
    if annotations(vmi).get("kubevirt.io/disablePCIHole64") == "true":
        lines.append("kubevirt.io/disablePCIHole64 takes away the window that the memory of a GPU is mapped into")
    if mode is Mode.APPEND:
        lines.append(NEEDS_MEMLOCK)
    return lines
