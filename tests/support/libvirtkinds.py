"""The kinds of device that a VM may get, each as the sidecar finds it on a node that has them all."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from support.nodetree import LAYOUTS, build, identity

from dra.device import Device
from hooksidecar.sysfs import HostTree
from hooksidecar.verification import verify

KINDS: Mapping[str, str] = {
    "mdev": "a40-mdev",
    "MIG mdev": "a100-mig-mdev",
    "vGPU VF": "l40s-vf",
    "MIG VF": "h200-mig-vf",
    "VF": "amd-vf",
    "GPU": "grace-passthrough",
}
"""What each kind is called, and which layout of support.nodetree has one."""


def devices_by_kind(folder: Path) -> dict[str, Device]:
    """Lay out the node in `folder` and return what the sidecar's check says of its devices."""
    tree = build(folder, *KINDS.values())
    devices = [Device(kind, identity(LAYOUTS[layout].device)) for kind, layout in KINDS.items()]
    return {device.name: device for device in verify(devices, HostTree(tree.root))}


def named(devices: Mapping[str, Device], names: Sequence[str], *, first: str) -> list[Device]:
    """Return a device for each of the `names`: the `first` of that kind, the others of the kinds that follow."""
    kinds = list(devices)
    start = kinds.index(first)
    return [replace(devices[kinds[(start + number) % len(kinds)]], name=name) for number, name in enumerate(names)]
