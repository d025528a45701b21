"""Nodes with GPUs and vGPUs of each kind, as host file trees.

    build(folder, "a40-mdev", "a40-passthrough")

lays out one node with both. Layouts use different boards, groups and addresses, so any of them can share a node, but
for variants of one board, which replace each other. `NodeTree` has the parts to build others of, or to break one.

Names and values are those of real hosts where such are public: type ids of NVIDIA's vgpuConfig.xml (510.47), the
listings of harvester/pcidevices, kernel/hypeman#327 and bigstack-oss/cubecos#312. UUIDs and groups are invented.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from support.hosttree import ACCELERATOR, AMD, INTEL, NodeTree

from dra.identity import Identity, MdevUUID, PciAddress

__all__ = ["LAYOUTS", "Layout", "NodeTree", "build", "identity"]

T4_MDEV = "c5a6f3de-8f2c-4f0e-9d1b-3a7c52e0d441"
A40_MDEV = "4d1f0b62-97a5-4c39-8a0d-b1e2c7f0a902"
A100_MDEV = "b0a6f6ec-5f0f-4b8e-9c6e-0d3b6f0a7a11"

# Time-sliced, mediated devices.


def t4_mdev(tree: NodeTree) -> None:
    """T4, time-sliced: the mediated device is the physical function's. The T4 has no virtual ones."""
    board = tree.pci("0000:3b:00.0", device="0x1eb8", driver="nvidia", group=34)
    description = "num_heads=4, frl_config=60, framebuffer=2048M, max_resolution=7680x4320, max_instance=8"
    kind = tree.mdev_type(board, "nvidia-231", "GRID T4-2Q", description, available=7)
    tree.mdev(board, T4_MDEV, kind, group=76)
    tree.nodes(76)


def a40_mdev(tree: NodeTree, *, type_folder: str = "nvidia-558", name: str = "NVIDIA A40-2Q") -> None:
    """A40, time-sliced: the mediated device is a virtual function's."""
    virtual = _board_with_virtual_function(tree, "0000:e8:00.0", "0000:e8:00.4", device="0x2235", totalvfs=32, group=90)
    description = "num_heads=4, frl_config=60, framebuffer=2048M, max_resolution=7680x4320, max_instance=24"
    kind = tree.mdev_type(virtual, type_folder, name, description)
    tree.mdev(virtual, A40_MDEV, kind, group=106)
    tree.nodes(106)


def a40_mdev_odd_folder(tree: NodeTree) -> None:
    """A40 with a type whose folder does not start with `nvidia-`, as seen with driver 550.163."""
    a40_mdev(tree, type_folder="vfio-pci-575", name="NVIDIA A40-24A")


# MIG-backed, mediated devices.


def a100_mig_mdev(tree: NodeTree, *, name: str = "GRID A100-1-5C") -> None:
    """A100 40 GB in MIG mode: time-sliced types are listed, but none can be made."""
    virtual = _board_with_virtual_function(tree, "0000:41:00.0", "0000:41:00.4", device="0x20f1", totalvfs=16, group=61)
    description = "num_heads=1, frl_config=60, framebuffer={}M, max_resolution=4096x2160, max_instance={}"
    kind = tree.mdev_type(virtual, "nvidia-474", name, description.format(5120, 7))
    tree.mdev_type(virtual, "nvidia-468", "GRID A100-4C", description.format(4096, 10))
    mdev = tree.mdev(virtual, A100_MDEV, kind, group=107)
    tree.write(f"{mdev}/nvidia/gpu_instance_id", 7)
    tree.write(f"{mdev}/nvidia/placement_id", 0)
    tree.nodes(107)


def a100_mig_mdev_renamed(tree: NodeTree) -> None:
    """A100 in MIG mode under a driver that calls its types NVIDIA instead of GRID."""
    a100_mig_mdev(tree, name="NVIDIA A100-1-5C")


# Virtual functions that hold a vGPU and stay on NVIDIA's driver (vendor-specific VFIO framework).

L40S_TYPES = "ID    : vGPU Name\n1145  : NVIDIA L40S-1B\n1155  : NVIDIA L40S-24Q\n1156  : NVIDIA L40S-48Q"
H200_MIG_TYPES = "1414 : NVIDIA H200X-1-18C"
BLACKWELL_MIG_TYPES = "ID    : vGPU Name\n1561  : NVIDIA RTX Pro 6000 Blackwell DC-1-24Q"


def l40s_vf(tree: NodeTree) -> None:
    """L40S, time-sliced: 3d:00.4 holds a vGPU, 3d:00.5 is free."""
    first, free = _vgpu_board(tree, "0000:3d:00", (4, 5), device="0x26b9", totalvfs=32, group=120, vfio=12)
    tree.vgpu(first, current=1155, creatable="ID    : vGPU Name")
    tree.vgpu(free, current=0, creatable=L40S_TYPES)


def h200_mig_vf(tree: NodeTree) -> None:
    """H200 in MIG mode: 18:00.4 holds a MIG-backed vGPU, 18:00.5 is free. No header in its catalogue."""
    first, free = _vgpu_board(tree, "0000:18:00", (4, 5), device="0x2335", totalvfs=16, group=130, vfio=14)
    tree.vgpu(first, current=1414, creatable="", instance=3)
    tree.vgpu(free, current=0, creatable=H200_MIG_TYPES)


def blackwell_mig_vf(tree: NodeTree) -> None:
    """RTX PRO 6000 Blackwell in MIG mode, in PCI domain 1, its virtual functions from .2 on."""
    first, free = _vgpu_board(tree, "0001:04:00", (2, 3), device="0x2bb5", totalvfs=48, group=140, vfio=16)
    tree.vgpu(first, current=1561, creatable="", instance=3)
    tree.vgpu(free, current=0, creatable=BLACKWELL_MIG_TYPES)


# Virtual functions of others, on a VFIO driver.


def amd_vf(tree: NodeTree) -> None:
    """MI355X, a virtual function of the eight."""
    identity = {"vendor": AMD, "device": "0x75b3", "pci_class": ACCELERATOR}
    virtual = "0000:c1:02.0"
    tree.pci("0000:c1:00.0", **identity, driver="gim", group=70, virtfns={0: virtual}, totalvfs=8)
    tree.pci(virtual, **identity, driver="vfio-pci", group=71, vfio=20, physfn="0000:c1:00.0")
    tree.nodes(71)


def intel_vf(tree: NodeTree) -> None:
    """A virtual function of a Battlemage GPU, on Intel's own variant of the VFIO driver."""
    identity = {"vendor": INTEL, "device": "0xe211", "pci_class": "0x030000"}
    virtual = "0000:03:00.1"
    tree.pci("0000:03:00.0", **identity, driver="xe", group=20, virtfns={0: virtual}, totalvfs=7)
    tree.pci(virtual, **identity, driver="xe-vfio-pci", group=21, vfio=21, physfn="0000:03:00.0")
    tree.nodes(21)


# Whole functions, on a VFIO driver.


def a40_passthrough(tree: NodeTree) -> None:
    """A40 on vfio-pci: a physical function that could have virtual ones but has none."""
    tree.pci("0000:65:00.0", device="0x2235", driver="vfio-pci", group=48, vfio=0, totalvfs=32)
    tree.nodes(48)


def two_functions(tree: NodeTree, *, audio_driver: str | None = "vfio-pci") -> None:
    """A consumer card: its audio function is in the same IOMMU group."""
    bridge = "pci0000:00/0000:00:01.0"
    card = {"group": 15, "bridge": bridge}
    tree.pci("0000:01:00.0", device="0x2204", pci_class="0x030000", driver="vfio-pci", vfio=1, **card)
    audio_vfio = 2 if audio_driver == "vfio-pci" else None
    tree.pci("0000:01:00.1", device="0x1aef", pci_class="0x040300", driver=audio_driver, vfio=audio_vfio, **card)
    tree.nodes(15)


def two_functions_audio_on_host(tree: NodeTree) -> None:
    """The audio function is still the host's: the group is not viable."""
    two_functions(tree, audio_driver="snd_hda_intel")


def two_functions_audio_unbound(tree: NodeTree) -> None:
    """The audio function has no driver."""
    two_functions(tree, audio_driver=None)


def two_functions_and_bridge(tree: NodeTree) -> None:
    """The bridge before the card is in its group, as on boards without ACS."""
    tree.pci(
        "0000:00:01.0",
        vendor=INTEL,
        device="0x1901",
        pci_class="0x060400",
        bridge="pci0000:00",
        driver="pcieport",
        group=15,
    )
    two_functions(tree)


def grace_passthrough(tree: NodeTree) -> None:
    """Grace Hopper: PCI domain 8, and a VFIO driver of its own name."""
    tree.pci(
        "0008:01:00.0",
        device="0x2342",
        driver="nvgrace_gpu_vfio_pci",
        group=9,
        vfio=3,
        bridge="pci0008:00/0008:00:00.0",
    )
    tree.nodes(9)


def _board_with_virtual_function(
    tree: NodeTree, physical: str, virtual: str, *, device: str, totalvfs: int, group: int
) -> str:
    """Add a board whose first virtual function is a parent of mediated devices; return that one's folder."""
    board = {"device": device, "driver": "nvidia"}
    tree.pci(physical, **board, group=group - 1, virtfns={0: virtual}, totalvfs=totalvfs)
    return tree.pci(virtual, **board, group=group, physfn=physical)


def _vgpu_board(
    tree: NodeTree, slot: str, functions: tuple[int, ...], *, device: str, totalvfs: int, group: int, vfio: int
) -> list[str]:
    """Add a board and its virtual functions, each a VFIO device in a group of its own; return their folders."""
    board = {"device": device, "driver": "nvidia"}
    physical, virtual = f"{slot}.0", [f"{slot}.{function}" for function in functions]
    tree.pci(physical, **board, group=group - 1, virtfns=dict(enumerate(virtual)), totalvfs=totalvfs)
    tree.nodes(*range(group, group + len(virtual)))
    return [
        tree.pci(address, **board, group=group + index, vfio=vfio + index, physfn=physical)
        for index, address in enumerate(virtual)
    ]


@dataclass(frozen=True, slots=True)
class Layout:
    """A node of one kind and the device on it that a VM is to get: a UUID or a PCI address."""

    build: Callable[[NodeTree], None]
    device: str


LAYOUTS: Mapping[str, Layout] = {
    "t4-mdev": Layout(t4_mdev, T4_MDEV),
    "a40-mdev": Layout(a40_mdev, A40_MDEV),
    "a40-mdev-odd-folder": Layout(a40_mdev_odd_folder, A40_MDEV),
    "a100-mig-mdev": Layout(a100_mig_mdev, A100_MDEV),
    "a100-mig-mdev-renamed": Layout(a100_mig_mdev_renamed, A100_MDEV),
    "l40s-vf": Layout(l40s_vf, "0000:3d:00.4"),
    "h200-mig-vf": Layout(h200_mig_vf, "0000:18:00.4"),
    "blackwell-mig-vf": Layout(blackwell_mig_vf, "0001:04:00.2"),
    "amd-vf": Layout(amd_vf, "0000:c1:02.0"),
    "intel-vf": Layout(intel_vf, "0000:03:00.1"),
    "a40-passthrough": Layout(a40_passthrough, "0000:65:00.0"),
    "grace-passthrough": Layout(grace_passthrough, "0008:01:00.0"),
    "two-functions": Layout(two_functions, "0000:01:00.0"),
    "two-functions-audio-on-host": Layout(two_functions_audio_on_host, "0000:01:00.0"),
    "two-functions-audio-unbound": Layout(two_functions_audio_unbound, "0000:01:00.0"),
    "two-functions-and-bridge": Layout(two_functions_and_bridge, "0000:01:00.0"),
}


def build(root: Path, *names: str) -> NodeTree:
    """Lay out a node that has what each of the layouts has, below `root`."""
    tree = NodeTree(root)
    for name in names:
        LAYOUTS[name].build(tree)
    return tree


def identity(device: str) -> Identity:
    """Return the identity that a UUID or a PCI address spells."""
    return MdevUUID.parse(device) if device.count("-") else PciAddress.parse(device)
