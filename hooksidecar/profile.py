"""What the name of a vGPU type tells: whether the vGPU is backed by a MIG instance.

A type's name is `GRID` or `NVIDIA`, the board, and last the profile: board, slices where MIG-backed, frame buffer in
GB and series, as in `GRID A100-1-5C` (MIG-backed) and `NVIDIA A40-2Q` (time-sliced).
Source: NVIDIA/vgpu-device-manager, pkg/types/vgpu_type.go.
"""

import re

# The 4 of old B4 types (GRID T4-2B4) is not in NVIDIA's pattern; it stands for four displays.
_TIME_SLICED = re.compile(r"[A-Z0-9]+(?:-[a-zA-Z]+)*-(?:0|[1-9][0-9]*)[ABCQ]4?")
_MIG_BACKED = re.compile(r"[A-Z0-9]+-[1-9]-(?:0|[1-9][0-9]*)[ABCQ](?:ME|NOME|MEALL|GFX)?")

_MAX_TYPE_ID = 0xFFFFFFFF


def mig_backed(profile: str | None) -> bool | None:
    """True if the vGPU type called `profile` is MIG-backed, False if time-sliced, None if the name does not tell."""
    words = (profile or "").split()
    if not words:
        return None
    if _MIG_BACKED.fullmatch(words[-1]):
        return True
    return False if _TIME_SLICED.fullmatch(words[-1]) else None


def parse_creatable_types(text: str) -> dict[int, str]:
    """Return the names of vGPU types by their ids, from a virtual function's `creatable_vgpu_types`.

    A line is `1155  : NVIDIA L40S-24Q`. Some drivers write a header, `ID    : vGPU Name`: what has no id is skipped.
    An id is unique for one board only.
    """
    types: dict[int, str] = {}
    for line in text.splitlines():
        number, _, name = line.partition(":")
        type_id = parse_type_id(number.strip())
        if type_id is not None and name.strip():
            types.setdefault(type_id, name.strip())
    return types


def parse_type_id(text: str) -> int | None:
    """Return the id of a vGPU type as sysfs writes it, in decimal; None where it is no such id."""
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(_MAX_TYPE_ID))):
        return None
    return int(text)
