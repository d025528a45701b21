"""The GPUs of the node: what the stand-in driver publishes and what the kernel would show of them.

There is no GPU here. Pods see a folder as the host's `sys` and `dev`, made of the same parts as the fixtures of the
sidecar's own tests.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.hosttree import NodeTree

DRIVER = "vgpu.example.com"
OTHER_DRIVER = "gpu.example.org"


@dataclass(frozen=True, slots=True)
class Gpu:
    """A device of the fleet: `identity` is its mdev UUID or PCI address."""

    name: str
    kind: str
    identity: str
    driver: str = DRIVER

    @property
    def is_mdev(self) -> bool:
        return ":" not in self.identity


def fleet() -> list[Gpu]:
    """Return all devices, in the order in which the scheduler takes them."""
    return [*_mdevs("time-sliced", 0xA0, 6), *_mdevs("mig-backed", 0xB0, 6), *_vfs(4), *_whole(2), *_others(2)]


def layout(tree: NodeTree, devices: list[Gpu]) -> None:
    """Make the host's files for the devices."""
    by_kind = {kind: [each for each in devices if each.kind == kind] for kind in {each.kind for each in devices}}
    _mdev_board(tree, "0000:3b:00", "nvidia-558", "NVIDIA A40-2Q", by_kind["time-sliced"], instance=None)
    _mdev_board(tree, "0000:41:00", "nvidia-474", "GRID A100-1-5C", by_kind["mig-backed"], instance=7)
    _vf_board(tree, by_kind["vf"])
    for index, each in enumerate(by_kind["passthrough"]):
        tree.pci(each.identity, device="0x2235", driver="vfio-pci", group=48 + index, vfio=index, totalvfs=32)
        tree.nodes(48 + index)


def settings(devices: list[Gpu], driver: str, node: str, root: Path) -> dict[str, Any]:
    """Return the settings of the stand-in driver that serves the devices of `driver`."""
    own = [each for each in devices if each.driver == driver]
    return {
        "driver": driver,
        "slices": [{"pool": f"{node}/gpus", "devices": [_published(each) for each in own]}],
        "devices": {each.name: {"attributes": _learnt(each)} for each in own},
        "root": str(root),
    }


def partitioned(slices: list[dict[str, Any]], kind: str, *, parts: int) -> list[dict[str, Any]]:
    """Return the slices with the devices of `kind` as parts of one GPU, of which `parts` fit into it."""
    memory = {"memory": {"value": f"{parts * 10}Gi"}}
    part = [{"counterSet": "gpu-0", "counters": {"memory": {"value": "10Gi"}}}]
    (piece,) = slices
    devices = [
        each | ({"consumesCounters": part} if each["attributes"]["kind"]["string"] == kind else {})
        for each in piece["devices"]
    ]
    counters = {"pool": piece["pool"], "sharedCounters": [{"name": "gpu-0", "counters": memory}]}
    return [{**piece, "devices": devices}, counters]


def in_shares(slices: list[dict[str, Any]], name: str, **attributes: str) -> list[dict[str, Any]]:
    """Return the slices with one more device, of the kind `shared`, which is allocated in shares of 10Gi."""
    policy = {"default": "10Gi", "validValues": ["10Gi"]}
    device = {
        "name": name,
        "allowMultipleAllocations": True,
        "attributes": {key: {"string": value} for key, value in {"kind": "shared", **attributes}.items()},
        "capacity": {"memory": {"value": "80Gi", "requestPolicy": policy}},
    }
    (piece,) = slices
    return [{**piece, "devices": [*piece["devices"], device]}]


def _mdevs(kind: str, number: int, count: int) -> Iterator[Gpu]:
    for index in range(count):
        yield Gpu(f"{kind}-{index}", kind, f"{number:08x}-5f0f-4b8e-9c6e-{index:012x}")


def _vfs(count: int) -> Iterator[Gpu]:
    for index in range(count):
        yield Gpu(f"vf-{index}", "vf", f"0000:3d:00.{4 + index}")


def _whole(count: int) -> Iterator[Gpu]:
    for index in range(count):
        yield Gpu(f"passthrough-{index}", "passthrough", f"0000:{0x65 + index:02x}:00.0")


def _others(count: int) -> Iterator[Gpu]:
    for index in range(count):
        yield Gpu(f"other-{index}", "passthrough", f"0000:{0x75 + index:02x}:00.0", OTHER_DRIVER)


def _published(gpu: Gpu) -> dict[str, Any]:
    """Return the device of the slice. The UUID of a mediated device is learnt when it is prepared."""
    attributes = {"kind": {"string": gpu.kind}, "name": {"string": gpu.name}}
    if not gpu.is_mdev:
        attributes["resource.kubernetes.io/pciBusID"] = {"string": gpu.identity}
    return {"name": gpu.name, "attributes": attributes}


def _learnt(gpu: Gpu) -> dict[str, Any]:
    return {"mdevUUID": {"string": gpu.identity}} if gpu.is_mdev else {}


def _mdev_board(
    tree: NodeTree, slot: str, type_folder: str, type_name: str, devices: list[Gpu], *, instance: int | None
) -> None:
    description = "num_heads=4, frl_config=60, framebuffer=2048M, max_resolution=7680x4320, max_instance=24"
    virtual = f"{slot}.4"
    first_group = int(slot.split(":")[1], 16) * 10
    tree.pci(f"{slot}.0", device="0x2235", driver="nvidia", group=first_group, virtfns={0: virtual}, totalvfs=32)
    parent = tree.pci(virtual, device="0x2235", driver="nvidia", group=first_group + 1, physfn=f"{slot}.0")
    kind = tree.mdev_type(parent, type_folder, type_name, description)
    for index, each in enumerate(devices, start=2):
        folder = tree.mdev(parent, each.identity, kind, group=first_group + index)
        if instance is not None:
            tree.write(f"{folder}/nvidia/gpu_instance_id", instance)
            tree.write(f"{folder}/nvidia/placement_id", 0)
        tree.nodes(first_group + index)


def _vf_board(tree: NodeTree, devices: list[Gpu]) -> None:
    slot = devices[0].identity.rpartition(".")[0]
    virtual = dict(enumerate(each.identity for each in devices))
    tree.pci(f"{slot}.0", device="0x26b9", driver="nvidia", group=119, virtfns=virtual, totalvfs=32)
    for index, each in enumerate(devices):
        function = tree.pci(
            each.identity, device="0x26b9", driver="nvidia", group=120 + index, vfio=20 + index, physfn=f"{slot}.0"
        )
        tree.vgpu(function, current=1155, creatable="ID    : vGPU Name")
        tree.nodes(120 + index)
