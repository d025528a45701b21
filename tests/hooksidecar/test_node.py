"""The node's view of an allocated device: what each is, on every layout."""

from pathlib import Path

import pytest
from support.nodetree import A40_MDEV, A100_MDEV, LAYOUTS, T4_MDEV, NodeTree, build, identity

from dra.device import Kind
from dra.errors import Refused
from dra.reasons import Reason
from hooksidecar.node import NodeDevice, inspect
from hooksidecar.sysfs import HostTree
from hooksidecar.vfio import has_vfio_driver


def look(tree: NodeTree, device: str, profile: str | None = None) -> NodeDevice:
    return inspect(HostTree(tree.root), identity(device), profile=profile)


# What each node has.

VFIO_PCI = "vfio-pci"
EXPECTED = {
    "t4-mdev": NodeDevice(VFIO_PCI, Kind.VGPU_MDEV, "GRID T4-2Q", False, "76"),
    "a40-mdev": NodeDevice(VFIO_PCI, Kind.VGPU_MDEV, "NVIDIA A40-2Q", False, "106"),
    "a40-mdev-odd-folder": NodeDevice(VFIO_PCI, Kind.VGPU_MDEV, "NVIDIA A40-24A", False, "106"),
    "a100-mig-mdev": NodeDevice(VFIO_PCI, Kind.VGPU_MDEV, "GRID A100-1-5C", True, "107"),
    "a100-mig-mdev-renamed": NodeDevice(VFIO_PCI, Kind.VGPU_MDEV, "NVIDIA A100-1-5C", True, "107"),
    "l40s-vf": NodeDevice(VFIO_PCI, Kind.VGPU_VF, "NVIDIA L40S-24Q", False, "120"),
    "h200-mig-vf": NodeDevice(VFIO_PCI, Kind.VGPU_VF, "NVIDIA H200X-1-18C", True, "130"),
    "blackwell-mig-vf": NodeDevice(VFIO_PCI, Kind.VGPU_VF, "NVIDIA RTX Pro 6000 Blackwell DC-1-24Q", True, "140"),
    "amd-vf": NodeDevice(VFIO_PCI, Kind.VF, None, None, "71"),
    "intel-vf": NodeDevice(VFIO_PCI, Kind.VF, None, None, "21"),
    "a40-passthrough": NodeDevice(VFIO_PCI, Kind.PASSTHROUGH, None, None, "48"),
    "grace-passthrough": NodeDevice(VFIO_PCI, Kind.PASSTHROUGH, None, None, "9"),
    "two-functions": NodeDevice(VFIO_PCI, Kind.PASSTHROUGH, None, None, "15"),
    "two-functions-audio-unbound": NodeDevice(VFIO_PCI, Kind.PASSTHROUGH, None, None, "15"),
    "two-functions-and-bridge": NodeDevice(VFIO_PCI, Kind.PASSTHROUGH, None, None, "15"),
}
UNUSABLE = {"two-functions-audio-on-host"}


def test_every_layout_is_expected_to_be_something() -> None:
    assert EXPECTED.keys() | UNUSABLE == LAYOUTS.keys()


@pytest.mark.parametrize("layout", EXPECTED)
def test_a_device_is_what_its_node_says(tmp_path: Path, layout: str) -> None:
    assert look(build(tmp_path, layout), LAYOUTS[layout].device) == EXPECTED[layout]


def test_one_node_has_devices_of_many_kinds(tmp_path: Path) -> None:
    layouts = ["t4-mdev", "a40-mdev", "a100-mig-mdev", "l40s-vf", "h200-mig-vf", "a40-passthrough", "amd-vf"]
    tree = build(tmp_path, *layouts)

    assert [look(tree, LAYOUTS[layout].device) for layout in layouts] == [EXPECTED[layout] for layout in layouts]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_tree_can_be_moved_and_kept_in_git(tmp_path: Path, layout: str) -> None:
    build(tmp_path / "here", layout)
    (tmp_path / "here").rename(tmp_path / "there")

    entries = list((tmp_path / "there").rglob("*"))
    links = [entry for entry in entries if entry.is_symlink()]
    assert links
    assert not any(link.readlink().is_absolute() for link in links)
    assert [entry for entry in entries if entry.is_dir() and not entry.is_symlink() and not any(entry.iterdir())] == []
    assert [file for file in entries if file.is_file() and not file.read_bytes().endswith(b"\n")] == []


# The profile.


def test_the_parents_group_is_not_the_mediated_devices(tmp_path: Path) -> None:
    tree = build(tmp_path, "a40-mdev")
    tree.nodes(90)

    assert look(tree, A40_MDEV).iommu_group == "106"


@pytest.mark.parametrize("layout", ["a40-mdev", "l40s-vf"])
def test_the_nodes_own_name_of_a_type_is_preferred_to_the_attributes(tmp_path: Path, layout: str) -> None:
    device = look(build(tmp_path, layout), LAYOUTS[layout].device, profile="NVIDIA A100-1-5C")

    assert device == EXPECTED[layout]


@pytest.mark.parametrize(
    ("hint", "mig_backed"), [("NVIDIA H200X-1-18C", True), ("NVIDIA H200X-141C", False), ("18c", None), (None, None)]
)
def test_on_a_full_board_only_the_attributes_know_the_type(
    tmp_path: Path, hint: str | None, mig_backed: bool | None
) -> None:
    tree = build(tmp_path, "h200-mig-vf")
    free = tree.function("0000:18:00.5")
    tree.write(f"{free}/nvidia/current_vgpu_type", 1414)
    tree.write(f"{free}/nvidia/creatable_vgpu_types", "")

    device = look(tree, "0000:18:00.4", profile=hint)

    assert (device.kind, device.profile, device.mig_backed) == (Kind.VGPU_VF, hint, mig_backed)


def test_a_type_that_no_sibling_lists_is_unknown(tmp_path: Path) -> None:
    tree = build(tmp_path, "l40s-vf")
    tree.write(f"{tree.function('0000:3d:00.4')}/nvidia/current_vgpu_type", 1149)

    assert look(tree, "0000:3d:00.4").profile is None


def test_a_mediated_device_without_a_name_has_the_profile_of_its_attributes(tmp_path: Path) -> None:
    tree = build(tmp_path, "a100-mig-mdev")
    tree.remove(tree.real(f"sys/bus/mdev/devices/{A100_MDEV}/mdev_type/name"))

    assert look(tree, A100_MDEV, profile="NVIDIA A100-1-5C").mig_backed is True
    assert look(tree, A100_MDEV).profile is None


@pytest.mark.parametrize("content", [b"\xff", b"x" * 100_000, b"\0"], ids=["not-utf-8", "huge", "binary"])
def test_a_broken_function_of_another_vm_only_costs_the_name(tmp_path: Path, content: bytes) -> None:
    tree = build(tmp_path, "l40s-vf")
    (tmp_path / tree.function("0000:3d:00.5") / "nvidia" / "creatable_vgpu_types").write_bytes(content)

    device = look(tree, "0000:3d:00.4")

    assert (device.kind, device.profile, device.mig_backed) == (Kind.VGPU_VF, None, None)


def test_a_passed_through_function_has_no_vgpu_profile(tmp_path: Path) -> None:
    assert look(build(tmp_path, "a40-passthrough"), "0000:65:00.0", profile="NVIDIA A40-2Q").profile is None


# VFIO drivers.


@pytest.mark.parametrize(
    ("driver", "vfio_dev", "expected"),
    [
        ("vfio-pci", False, True),
        ("nvgrace_gpu_vfio_pci", False, True),
        ("xe-vfio-pci", False, True),
        ("mlx5_vfio_pci", False, True),
        ("nvidia", True, True),
        ("nvidia", False, False),
        ("nouveau", False, False),
        ("vfio-pci-like", False, False),
        (None, False, False),
        (None, True, False),
    ],
)
def test_a_vfio_driver_is_known_by_its_device_or_its_name(
    tmp_path: Path, driver: str | None, vfio_dev: bool, expected: bool
) -> None:
    tree = NodeTree(tmp_path)
    folder = tree.pci("0000:65:00.0", device="0x2235", driver=driver, vfio=0 if vfio_dev else None)

    assert has_vfio_driver(HostTree(tmp_path), folder) is expected


@pytest.mark.parametrize("driver", ["pci-stub", "vfio-pci", "nvgrace_gpu_vfio_pci", None])
def test_the_rest_of_a_group_may_be_held_for_vms(tmp_path: Path, driver: str | None) -> None:
    tree = build(tmp_path, "two-functions-audio-unbound")
    if driver:
        tree.driver(tree.function("0000:01:00.1"), driver)

    assert look(tree, "0000:01:00.0").kind is Kind.PASSTHROUGH


def test_a_physical_function_on_a_vfio_driver_is_passed_through(tmp_path: Path) -> None:
    tree = build(tmp_path, "a40-passthrough")

    assert (tmp_path / tree.function("0000:65:00.0") / "sriov_totalvfs").exists()
    assert look(tree, "0000:65:00.0").kind is Kind.PASSTHROUGH


def test_nothing_on_the_node_is_changed(tmp_path: Path) -> None:
    tree = build(tmp_path, *EXPECTED)
    before = sorted(str(entry) for entry in tmp_path.rglob("*"))

    for layout in EXPECTED:
        look(tree, LAYOUTS[layout].device)

    assert sorted(str(entry) for entry in tmp_path.rglob("*")) == before


# Cases that users reported.


def test_vg21_an_audio_function_in_the_slot_is_not_taken_along(tmp_path: Path) -> None:
    tree = build(tmp_path, "two-functions")

    assert look(tree, "0000:01:00.0") == EXPECTED["two-functions"]
    assert look(tree, "0000:01:00.1") == EXPECTED["two-functions"]  # a device of its own, for who claims it


def test_vg28_a_vgpu_without_mdev_is_a_virtual_function_that_stays_on_nvidia(tmp_path: Path) -> None:
    tree = build(tmp_path, "l40s-vf")

    assert not (tmp_path / "sys/class/mdev_bus").exists()
    assert look(tree, "0000:3d:00.4").kind is Kind.VGPU_VF
    assert (tmp_path / tree.function("0000:3d:00.4") / "driver").readlink().name == "nvidia"


def test_vg31_a_mediated_device_that_is_not_active_is_named(tmp_path: Path) -> None:
    tree = build(tmp_path, "t4-mdev")
    tree.remove(f"sys/bus/mdev/devices/{T4_MDEV}")

    with pytest.raises(Refused, match=f"mediated device {T4_MDEV} is not on this node") as refused:
        look(tree, T4_MDEV)

    assert refused.value.reason is Reason.MDEV_MISSING


def test_dr20_a_grace_gpu_is_passed_through_on_its_own_vfio_driver(tmp_path: Path) -> None:
    tree = build(tmp_path, "grace-passthrough")
    tree.remove(f"{tree.function('0008:01:00.0')}/vfio-dev")  # as on a kernel before 6.1: the name must do

    assert look(tree, "0008:01:00.0").kind is Kind.PASSTHROUGH
