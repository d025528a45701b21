"""Host trees that somebody broke: whatever is in them, a device is refused in our words or it fits."""

import os
import re
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.nodetree import LAYOUTS, build, identity

from dra.device import Kind
from dra.errors import DravirtError
from dra.identity import Identity, MdevUUID
from hooksidecar.node import NodeDevice, inspect
from hooksidecar.sysfs import HostTree

Mutation = tuple[int, str, bytes | str | int]
"""Which entry (by number, modulo their count) becomes what: nothing, a file, a folder or a link."""

CONTENTS = st.sampled_from([b"", b"0\n", b"vfio-pci\n", b"vfio-ap\n", b"\xff\n", b"a\nb\n", b"\0", b"0x060400\n"])
TARGETS = st.sampled_from(
    ["../outside", "nowhere", ".", "..", "../../outside/file", "/etc/hostname", "self", "vfio-pci"]
)
ENTRIES = st.integers(0, 10**6)

MUTATIONS = st.lists(
    st.one_of(
        st.tuples(ENTRIES, st.just("drop"), st.just("")),
        st.tuples(ENTRIES, st.just("file"), CONTENTS | st.binary(max_size=20)),
        st.tuples(ENTRIES, st.just("folder"), st.just("")),
        st.tuples(ENTRIES, st.just("link"), TARGETS),
        st.tuples(ENTRIES, st.just("link-to-entry"), ENTRIES),
    ),
    min_size=1,
    max_size=6,
)


def mutilate(root: Path, mutations: list[Mutation]) -> None:
    for number, how, what in mutations:
        entries = sorted(root.rglob("*"))
        if not entries:
            return
        entry = entries[number % len(entries)]
        drop(entry)
        match how, what:
            case "file", bytes():
                entry.write_bytes(what)
            case "folder", _:
                entry.mkdir()
            case "link", str():
                entry.symlink_to(what)
            case "link-to-entry", int():
                entry.symlink_to(os.path.relpath(entries[what % len(entries)], entry.parent))


def drop(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()


@pytest.fixture(scope="module")
def layouts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a folder of each layout."""
    folder = tmp_path_factory.mktemp("layouts")
    for layout in LAYOUTS:
        build(folder / layout, layout)
    return folder


@settings(max_examples=100, deadline=None)
@given(layout=st.sampled_from(sorted(LAYOUTS)), mutations=MUTATIONS)
def test_a_mutilated_tree_is_refused_or_its_device_fits(layouts: Path, layout: str, mutations: list[Mutation]) -> None:
    device = identity(LAYOUTS[layout].device)
    with TemporaryDirectory() as folder:
        root = Path(folder, "root")
        shutil.copytree(layouts / layout, root, symlinks=True)
        Path(folder, "outside").mkdir()
        Path(folder, "outside", "file").write_text("vfio-pci\n")
        mutilate(root, mutations)

        try:
            found = inspect(HostTree(root), device)
        except DravirtError as error:
            require_printable(error.message)
        else:
            require_fit(root.resolve(), device, found)


def require_printable(message: str) -> None:
    assert message
    assert message.isprintable()


def require_fit(root: Path, device: Identity, found: NodeDevice) -> None:
    """Assert, from the files alone, that a VM can take the device and that it is what was found."""
    bus = "mdev" if isinstance(device, MdevUUID) else "pci"
    folder = (root / "sys/bus" / bus / "devices" / str(device)).resolve(strict=True)
    assert folder.is_relative_to(root)
    assert (folder / "iommu_group").readlink().name == found.iommu_group
    assert re.fullmatch("[0-9]+", found.iommu_group)
    assert (root / "dev/vfio/vfio").exists()
    assert (root / "dev/vfio" / found.iommu_group).exists()
    assert found.model == "vfio-pci"
    if isinstance(device, MdevUUID):
        require_mdev(root, folder, found)
    else:
        require_function(folder, found)


def require_mdev(root: Path, folder: Path, found: NodeDevice) -> None:
    assert found.kind is Kind.VGPU_MDEV
    model = (folder / "mdev_type/device_api").resolve(strict=True)
    assert model.is_relative_to(root)
    assert model.read_text().strip() == "vfio-pci"


def require_function(folder: Path, found: NodeDevice) -> None:
    driver = (folder / "driver").readlink().name
    assert driver.endswith(("vfio-pci", "vfio_pci")) or (folder / "vfio-dev").exists()
    assert (found.kind in (Kind.VF, Kind.VGPU_VF)) == (folder / "physfn").is_symlink()
    assert (found.kind is Kind.VGPU_VF) == (driver == "nvidia")
    if found.kind is Kind.VGPU_VF:
        assert int((folder / "nvidia/current_vgpu_type").read_text()) > 0
