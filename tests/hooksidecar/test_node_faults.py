"""What keeps a device from a VM: each fault of a node has one reason, and a message that says where and what to do."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.nodetree import A100_MDEV, NodeTree, build, identity

from dra.errors import Refused
from dra.reasons import Reason
from hooksidecar.node import inspect
from hooksidecar.sysfs import HostTree

ABSENT_MDEV = "9e0f4b52-0c1d-4b7e-8d5a-3f6a7b8c9d0e"
VF, PHYSICAL, FREE_VF = "0000:3d:00.4", "0000:3d:00.0", "0000:3d:00.5"
GPU = "0000:65:00.0"
CARD, AUDIO, BRIDGE = "0000:01:00.0", "0000:01:00.1", "0000:00:01.0"

Change = Callable[[NodeTree], object]


def nothing(_: NodeTree) -> None:
    """The layout has the fault already."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A layout that `change` breaks, the device asked for, and what the refusal says."""

    layout: str
    device: str
    reason: Reason
    named: tuple[str, ...]
    change: Change = nothing


def remove(path: str) -> Change:
    return lambda tree: tree.remove(path)


def in_function(address: str, change: Callable[[NodeTree, str], object]) -> Change:
    return lambda tree: change(tree, tree.function(address))


def without(address: str, entry: str) -> Change:
    return in_function(address, lambda tree, folder: tree.remove(f"{folder}/{entry}"))


def in_mdev(change: Callable[[NodeTree, str], object]) -> Change:
    return lambda tree: change(tree, tree.real(f"sys/bus/mdev/devices/{A100_MDEV}"))


def in_mdev_type(change: Callable[[NodeTree, str], object]) -> Change:
    return lambda tree: change(tree, tree.real(f"sys/bus/mdev/devices/{A100_MDEV}/mdev_type"))


def link_elsewhere(path: str, target: str) -> Change:
    def change(tree: NodeTree) -> None:
        tree.remove(path)
        tree.link(path, target)

    return change


def bind_to_nouveau(tree: NodeTree, folder: str) -> None:
    tree.driver(folder, "nouveau")
    tree.remove(f"{folder}/vfio-dev")


def make_the_driver_a_folder(tree: NodeTree, folder: str) -> None:
    tree.remove(f"{folder}/driver")
    tree.write(f"{folder}/driver/module", "")


MDEV_FAULTS = {
    "mdev-unknown": Fault(
        "a100-mig-mdev",
        ABSENT_MDEV,
        Reason.MDEV_MISSING,
        (f"sys/bus/mdev/devices/{ABSENT_MDEV}", "virt-handler", "externalResourceProvider: true", "enabled: false"),
    ),
    "mdev-link-dangles": Fault(
        "a100-mig-mdev",
        A100_MDEV,
        Reason.MDEV_MISSING,
        ("is not on this node",),
        in_mdev(lambda tree, mdev: tree.remove(mdev)),
    ),
    "mdev-is-no-gpu": Fault(
        "a100-mig-mdev",
        A100_MDEV,
        Reason.UNSUPPORTED_MODEL,
        ("vfio-ap", "vfio-pci", "mdev_type/device_api"),
        in_mdev_type(lambda tree, kind: tree.write(f"{kind}/device_api", "vfio-ap")),
    ),
    "mdev-without-model": Fault(
        "a100-mig-mdev",
        A100_MDEV,
        Reason.BROKEN_SYSFS,
        ("mdev_type/device_api",),
        in_mdev_type(lambda tree, kind: tree.remove(f"{kind}/device_api")),
    ),
    "mdev-without-type": Fault(
        "a100-mig-mdev",
        A100_MDEV,
        Reason.BROKEN_SYSFS,
        ("mdev_type/device_api",),
        in_mdev(lambda tree, mdev: tree.remove(f"{mdev}/mdev_type")),
    ),
    "mdev-with-a-name-of-two-lines": Fault(
        "a100-mig-mdev",
        A100_MDEV,
        Reason.BROKEN_SYSFS,
        ("mdev_type/name", "more than one line"),
        in_mdev_type(lambda tree, kind: tree.write(f"{kind}/name", "GRID A100-1-5C\nGRID A100-4C")),
    ),
    "mdev-without-group": Fault(
        "a100-mig-mdev",
        A100_MDEV,
        Reason.NO_IOMMU_GROUP,
        ("iommu_group", "intel_iommu=on"),
        in_mdev(lambda tree, mdev: tree.remove(f"{mdev}/iommu_group")),
    ),
    "mdev-without-node": Fault(
        "a100-mig-mdev", A100_MDEV, Reason.VFIO_MISSING, ("dev/vfio/107", "LegacyOnly"), remove("dev/vfio/107")
    ),
    "mdev-that-is-a-loop": Fault(
        "a100-mig-mdev",
        A100_MDEV,
        Reason.BROKEN_SYSFS,
        ("loop",),
        link_elsewhere(f"sys/bus/mdev/devices/{A100_MDEV}", f"sys/bus/mdev/devices/{A100_MDEV}"),
    ),
}

VGPU_FUNCTION_FAULTS = {
    "physical-function": Fault(
        "l40s-vf", PHYSICAL, Reason.PHYSICAL_FUNCTION, ("sriov_totalvfs", "virtual function", "pciBusID")
    ),
    "physical-function-that-is-a-vfio-device": Fault(
        "l40s-vf",
        PHYSICAL,
        Reason.PHYSICAL_FUNCTION,
        ("sriov_totalvfs",),
        in_function(PHYSICAL, lambda tree, folder: tree.vfio_dev(folder, 40)),
    ),
    "no-type": Fault("l40s-vf", FREE_VF, Reason.VGPU_TYPE_UNSET, ("nvidia/current_vgpu_type", "reboot")),
    "empty-type": Fault(
        "l40s-vf",
        VF,
        Reason.VGPU_TYPE_UNSET,
        ("nvidia/current_vgpu_type",),
        in_function(VF, lambda tree, folder: tree.write(f"{folder}/nvidia/current_vgpu_type", "")),
    ),
    "parent-of-mediated-devices": Fault("a40-mdev", "0000:e8:00.4", Reason.VGPU_TYPE_UNSET, ("mdevUUID",)),
    "odd-type": Fault(
        "l40s-vf",
        VF,
        Reason.BROKEN_SYSFS,
        ("current_vgpu_type", "'0x619'"),
        in_function(VF, lambda tree, folder: tree.write(f"{folder}/nvidia/current_vgpu_type", "0x619")),
    ),
    "no-vfio-device": Fault(
        "l40s-vf", VF, Reason.WRONG_DRIVER, ("bound to nvidia", "vfio-dev", "Linux >= 6.1"), without(VF, "vfio-dev")
    ),
    "other-vendor": Fault(
        "l40s-vf",
        VF,
        Reason.BROKEN_SYSFS,
        (f"{VF}/vendor", "0x1002"),
        in_function(VF, lambda tree, folder: tree.write(f"{folder}/vendor", "0x1002")),
    ),
    "no-group": Fault("l40s-vf", VF, Reason.NO_IOMMU_GROUP, (f"{VF}/iommu_group",), without(VF, "iommu_group")),
    "no-node": Fault("l40s-vf", VF, Reason.VFIO_MISSING, ("dev/vfio/120",), remove("dev/vfio/120")),
    "in-the-group-of-its-physical-function": Fault(
        "l40s-vf",
        VF,
        Reason.GROUP_NOT_VIABLE,
        ("group 120", f"{PHYSICAL} of the same group is bound to nvidia"),
        in_function(PHYSICAL, lambda tree, folder: tree.group(folder, 120)),
    ),
}

FUNCTION_FAULTS = {
    "unknown": Fault(
        "a40-passthrough", "0000:66:00.0", Reason.PCI_MISSING, ("sys/bus/pci/devices/0000:66:00.0", "lspci -D")
    ),
    "no-driver": Fault(
        "a40-passthrough",
        GPU,
        Reason.WRONG_DRIVER,
        ("bound to no driver", f"{GPU}/driver", "vfio-pci"),
        without(GPU, "driver"),
    ),
    "other-driver": Fault(
        "a40-passthrough", GPU, Reason.WRONG_DRIVER, ("bound to nouveau", "vfio-pci"), in_function(GPU, bind_to_nouveau)
    ),
    "whole-gpu-on-nvidia": Fault(
        "t4-mdev", "0000:3b:00.0", Reason.WRONG_DRIVER, ("is bound to nvidia, the host's own driver", "vfio-pci")
    ),
    "driver-that-is-a-folder": Fault(
        "a40-passthrough",
        GPU,
        Reason.BROKEN_SYSFS,
        (f"{GPU}/driver", "no symbolic link"),
        in_function(GPU, make_the_driver_a_folder),
    ),
    "leads-outside": Fault(
        "a40-passthrough",
        GPU,
        Reason.BROKEN_SYSFS,
        ("outside",),
        link_elsewhere(f"sys/bus/pci/devices/{GPU}", "../elsewhere"),
    ),
    "no-vfio-container": Fault(
        "a40-passthrough",
        GPU,
        Reason.VFIO_MISSING,
        ("dev/vfio/vfio", "VfioDeviceConfig", "enableAPIDevice: true", "backendPolicy: LegacyOnly"),
        remove("dev/vfio/vfio"),
    ),
    "no-nodes-at-all": Fault("a40-passthrough", GPU, Reason.VFIO_MISSING, ("dev/vfio/vfio",), remove("dev")),
}

GROUP_FAULTS = {
    "audio-function-on-the-host": Fault(
        "two-functions-audio-on-host",
        CARD,
        Reason.GROUP_NOT_VIABLE,
        ("group 15", "is not viable", f"{AUDIO} of the same group is bound to snd_hda_intel"),
    ),
    "member-of-unknown-class": Fault(
        "two-functions-and-bridge",
        CARD,
        Reason.GROUP_NOT_VIABLE,
        (f"{BRIDGE} of the same group is bound to pcieport",),
        without(BRIDGE, "class"),
    ),
    "bridge-to-another-bus-than-pci": Fault(
        "two-functions-and-bridge",
        CARD,
        Reason.GROUP_NOT_VIABLE,
        (f"{BRIDGE} of the same group is bound to pcieport",),
        in_function(BRIDGE, lambda tree, folder: tree.write(f"{folder}/class", "0x060100")),
    ),
    "member-that-is-gone": Fault(
        "two-functions",
        CARD,
        Reason.BROKEN_SYSFS,
        (f"iommu_groups/15/devices/{AUDIO}", "cannot be checked"),
        in_function(AUDIO, lambda tree, folder: tree.remove(folder)),
    ),
    "group-that-does-not-know-its-device": Fault(
        "a40-passthrough",
        GPU,
        Reason.BROKEN_SYSFS,
        ("iommu_groups/48/devices", "does not list"),
        remove(f"sys/kernel/iommu_groups/48/devices/{GPU}"),
    ),
    "group-that-is-no-number": Fault(
        "a40-passthrough",
        GPU,
        Reason.BROKEN_SYSFS,
        (f"{GPU}/iommu_group", "'vfio'"),
        in_function(GPU, lambda tree, folder: tree.link(f"{folder}/iommu_group", "dev/vfio/vfio")),
    ),
    "group-of-foreign-digits": Fault(
        "a40-passthrough",
        GPU,
        Reason.BROKEN_SYSFS,
        (f"{GPU}/iommu_group", "no number"),
        in_function(GPU, lambda tree, folder: tree.group(folder, "\N{ARABIC-INDIC DIGIT FOUR}")),
    ),
}

FAULTS = MDEV_FAULTS | VGPU_FUNCTION_FAULTS | FUNCTION_FAULTS | GROUP_FAULTS


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_refused_with_its_reason_place_and_remedy(tmp_path: Path, fault: Fault) -> None:
    tree = build(tmp_path, fault.layout)
    fault.change(tree)

    with pytest.raises(Refused) as refused:
        inspect(HostTree(tmp_path), identity(fault.device))

    assert refused.value.reason is fault.reason
    assert refused.value.path.startswith(str(tmp_path))
    for text in (fault.device, *fault.named):
        assert text in refused.value.message


def test_no_fault_has_the_name_of_another() -> None:
    assert len(FAULTS) == len(MDEV_FAULTS) + len(VGPU_FUNCTION_FAULTS) + len(FUNCTION_FAULTS) + len(GROUP_FAULTS)


def test_every_reason_that_a_node_can_give_is_tested() -> None:
    assert {fault.reason for fault in FAULTS.values()} == {
        Reason.MDEV_MISSING,
        Reason.PCI_MISSING,
        Reason.WRONG_DRIVER,
        Reason.PHYSICAL_FUNCTION,
        Reason.VGPU_TYPE_UNSET,
        Reason.NO_IOMMU_GROUP,
        Reason.GROUP_NOT_VIABLE,
        Reason.VFIO_MISSING,
        Reason.UNSUPPORTED_MODEL,
        Reason.BROKEN_SYSFS,
    }
