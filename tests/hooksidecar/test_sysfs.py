"""The host's file tree, friendly and hostile."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from dra.errors import Failed, Refused
from dra.reasons import Reason
from hooksidecar.sysfs import MAX_CHILDREN, MAX_LINKS, MAX_TEXT, HostTree

SECRET = "vfio-pci"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with `sys/`, and a file beside it that must never be read."""
    (tmp_path / "outside").write_text(f"{SECRET}\n")
    (tmp_path / "root" / "sys").mkdir(parents=True)
    return tmp_path / "root"


@pytest.fixture
def tree(root: Path) -> HostTree:
    return HostTree(root)


@pytest.fixture
def sys(root: Path) -> Path:
    return root / "sys"


def test_text_is_read_without_the_space_around_it(tree: HostTree, sys: Path) -> None:
    (sys / "name").write_text("  GRID A100-1-5C\n\n")

    assert tree.read("sys/name") == tree.line("sys/name") == "GRID A100-1-5C"


def test_a_path_may_start_with_a_slash(tree: HostTree, sys: Path) -> None:
    (sys / "name").write_text("x\n")

    assert tree.read("/sys/name") == "x"
    assert tree.at("/sys/name") == tree.at("sys/name") == str(sys / "name")


def test_the_whole_host_is_a_tree_too() -> None:
    tree = HostTree(Path("/"))

    assert tree.exists("proc/self")
    assert tree.at("sys/bus") == "/sys/bus"
    assert "pid_max" in tree.children("proc/sys/kernel")
    assert (tree.line("proc/sys/kernel/pid_max") or "").isdecimal()


def test_many_lines_are_read_but_are_no_line(tree: HostTree, sys: Path) -> None:
    (sys / "types").write_text("1 : a\n2 : b\n")

    assert tree.read("sys/types") == "1 : a\n2 : b"
    with pytest.raises(Refused, match="sys/types: holds more than one line") as refused:
        tree.line("sys/types")
    assert refused.value.reason is Reason.BROKEN_SYSFS


@pytest.mark.parametrize("path", ["sys/none", "sys/none/deeper", "sys/file/deeper", "sys/dangling", "none"])
def test_what_is_absent_is_no_error(tree: HostTree, sys: Path, path: str) -> None:
    (sys / "file").write_text("x\n")
    (sys / "dangling").symlink_to("nowhere")

    assert tree.read(path) is None
    assert tree.line(path) is None
    assert tree.children(path) == ()
    assert not tree.exists(path)
    if path != "sys/dangling":
        assert tree.link_name(path) is None


@pytest.mark.parametrize("target", ["../bus/pci/drivers/vfio-pci", "vfio-pci", "./drivers//vfio-pci/"])
def test_a_link_names_the_last_part_of_its_target_even_if_nothing_is_there(
    tree: HostTree, sys: Path, target: str
) -> None:
    (sys / "driver").symlink_to(target)

    assert tree.link_name("sys/driver") == "vfio-pci"


def test_a_link_below_a_link_is_found(tree: HostTree, sys: Path) -> None:
    (sys / "devices").mkdir()
    (sys / "devices" / "iommu_group").symlink_to("../kernel/iommu_groups/34")
    (sys / "bus").symlink_to("devices")

    assert tree.link_name("sys/bus/iommu_group") == "34"


def test_a_link_to_a_link_has_the_name_of_the_first(tree: HostTree, sys: Path) -> None:
    (sys / "first").symlink_to("second")
    (sys / "second").symlink_to("third")
    (sys / "third").write_text("x\n")

    assert tree.link_name("sys/first") == "second"


def test_only_a_fresh_look_sees_what_changed(tree: HostTree, sys: Path) -> None:
    (sys / "driver").symlink_to("nvidia")
    (sys / "nvidia").write_text("x\n")
    assert tree.read("sys/driver") == "x"

    (sys / "nvidia").unlink()

    assert tree.read("sys/driver") is None
    assert tree.exists("sys/driver")
    assert not tree.fresh().exists("sys/driver")


def test_children_are_sorted(tree: HostTree, sys: Path) -> None:
    for name in ("b", "a", "c"):
        (sys / name).write_text("x\n")

    assert tree.children("sys") == ("a", "b", "c")


OPERATIONS: dict[str, Callable[[HostTree, str], object]] = {
    "read": HostTree.read,
    "line": HostTree.line,
    "link_name": HostTree.link_name,
    "exists": HostTree.exists,
    "children": HostTree.children,
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "path", ["sys/up", "sys/absolute", "sys/folder/outside", "sys/dangling", "../outside", "../../"]
)
def test_what_leads_out_of_the_root_is_refused(tree: HostTree, root: Path, path: str, operation: str) -> None:
    (root / "sys" / "up").symlink_to("../../outside")
    (root / "sys" / "absolute").symlink_to(root.parent / "outside")
    (root / "sys" / "folder").symlink_to("../..")
    (root / "sys" / "dangling").symlink_to("../../nowhere")

    with pytest.raises(Refused, match="outside") as refused:
        OPERATIONS[operation](tree, path)

    assert refused.value.reason is Reason.BROKEN_SYSFS
    assert SECRET not in refused.value.message


def test_a_folder_whose_name_starts_with_the_roots_is_outside(tree: HostTree, root: Path) -> None:
    root.with_name("root-2").mkdir()
    (root / "sys" / "twin").symlink_to("../../root-2")

    with pytest.raises(Refused, match="outside"):
        tree.exists("sys/twin")


def test_a_link_to_the_root_itself_is_inside(tree: HostTree, sys: Path) -> None:
    (sys / "top").symlink_to("..")

    assert tree.children("sys/top") == ("sys",)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("path", ["sys/self", "sys/a", "sys/self/below", "sys/detour"])
def test_links_without_end_are_refused(tree: HostTree, sys: Path, path: str, operation: str) -> None:
    (sys / "self").symlink_to("self")
    (sys / "a").symlink_to("b")
    (sys / "b").symlink_to("a")
    (sys / "out").symlink_to("../..")
    (sys / "detour").symlink_to("self/../out/outside")

    with pytest.raises(Refused, match="is a loop of symbolic links") as refused:
        OPERATIONS[operation](tree, path)

    assert refused.value.reason is Reason.BROKEN_SYSFS


def chain(sys: Path, links: int) -> None:
    """Make a chain of links that ends at a file."""
    for number in range(links):
        (sys / f"chain{number}").symlink_to(f"chain{number + 1}")
    (sys / f"chain{links}").write_text("x\n")


def test_a_chain_of_links_is_followed_as_far_as_the_kernel_does(tree: HostTree, sys: Path) -> None:
    chain(sys, MAX_LINKS)

    assert tree.read("sys/chain0") == (sys / "chain0").read_text().strip() == "x"


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("links", [MAX_LINKS + 1, 1500])
def test_a_longer_chain_of_links_is_refused(tree: HostTree, sys: Path, links: int, operation: str) -> None:
    chain(sys, links)

    with pytest.raises(Refused, match="chain without end"):
        OPERATIONS[operation](tree, "sys/chain0")


def test_links_that_double_at_each_step_take_no_longer(tree: HostTree, sys: Path) -> None:
    # Followed one by one, these are 2**35 links.
    (sys / "x0").mkdir()
    for number in range(35):
        (sys / f"x{number + 1}").symlink_to(f"x{number}/../x{number}")

    assert tree.children("sys/x35") == ()


@pytest.mark.parametrize("target", ["{root}/sys/file", "{root}/sys/../sys/file"])
def test_an_absolute_link_is_followed_where_it_stays_below_the_root(
    tree: HostTree, root: Path, sys: Path, target: str
) -> None:
    (sys / "file").write_text("x\n")
    (sys / "link").symlink_to(target.format(root=root))

    assert tree.read("sys/link") == "x"


@pytest.mark.parametrize("target", ["../../root/sys/file", "{root}/../root/sys/file"])
def test_a_way_that_leaves_the_root_and_comes_back_is_refused(
    tree: HostTree, root: Path, sys: Path, target: str
) -> None:
    (sys / "file").write_text("x\n")
    (sys / "link").symlink_to(target.format(root=root))

    with pytest.raises(Refused, match="outside"):
        tree.read("sys/link")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"\xff\xfe", "no UTF-8 text"),
        (b"vfio\0-pci", "control characters"),
        (b"\x1b[31mred", "control characters"),
        ("vfio\N{RIGHT-TO-LEFT OVERRIDE}pci".encode(), "control characters"),
        (b"x" * (MAX_TEXT + 1), "more than 65536 bytes"),
    ],
    ids=["not-utf-8", "nul", "escape", "bidi", "huge"],
)
def test_what_is_no_text_is_refused(tree: HostTree, sys: Path, content: bytes, match: str) -> None:
    (sys / "name").write_bytes(content)

    with pytest.raises(Refused, match=match) as refused:
        tree.read("sys/name")

    assert refused.value.reason is Reason.BROKEN_SYSFS


def test_the_largest_file_is_read(tree: HostTree, sys: Path) -> None:
    (sys / "name").write_bytes(b"x" * MAX_TEXT)

    assert tree.read("sys/name") == "x" * MAX_TEXT


def test_an_endless_file_is_not_read_to_its_end(tree: HostTree, sys: Path) -> None:
    with (sys / "sparse").open("wb") as file:
        file.truncate(1 << 40)

    with pytest.raises(Refused, match="more than"):
        tree.read("sys/sparse")


def test_neither_a_folder_nor_a_pipe_nor_a_socket_is_opened_as_a_file(tree: HostTree, sys: Path) -> None:
    (sys / "folder").mkdir()
    os.mkfifo(sys / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        cwd = os.open(sys, os.O_RDONLY)
        try:
            server.bind(f"/proc/self/fd/{cwd}/socket")  # the path of a socket is short, that of a test may be long
        finally:
            os.close(cwd)

    for name in ("folder", "pipe", "socket"):
        with pytest.raises(Refused, match="no regular file") as refused:
            tree.read(f"sys/{name}")
        assert refused.value.reason is Reason.BROKEN_SYSFS


def test_a_file_is_no_directory_and_no_link(tree: HostTree, sys: Path) -> None:
    (sys / "file").write_text("x\n")

    with pytest.raises(Refused, match="sys/file: is no directory"):
        tree.children("sys/file")
    with pytest.raises(Refused, match="sys/file: is no symbolic link"):
        tree.link_name("sys/file")


def test_an_error_of_the_kernel_may_pass(tree: HostTree, sys: Path) -> None:
    # Address 0 of a process is never mapped: the kernel answers the read of this regular file with EIO.
    with pytest.raises(Failed, match="mem: cannot be read: ") as failed:
        HostTree(Path("/proc/self")).read("mem")

    assert failed.value.reason is Reason.UNREADABLE


def test_a_name_longer_than_the_kernel_takes_is_our_error(tree: HostTree) -> None:
    with pytest.raises(Failed, match="cannot be read"):
        tree.read("sys/" + "x" * 300)


@pytest.mark.parametrize("name", [b"bad\xff", b"two\nlines", b"\x1b[31m"], ids=["not-utf-8", "newline", "escape"])
def test_a_name_that_sysfs_never_has_is_refused(tree: HostTree, sys: Path, name: bytes) -> None:
    Path(os.fsdecode(os.fsencode(sys) + b"/" + name)).write_text("x\n")

    with pytest.raises(Refused, match="which no entry of sysfs has") as refused:
        tree.children("sys")

    assert refused.value.message.isprintable()


@pytest.mark.parametrize("target", ["..", ".", "/", "../.."])
def test_a_link_that_names_nothing_is_refused(tree: HostTree, sys: Path, target: str) -> None:
    (sys / "deep").mkdir()
    (sys / "deep" / "driver").symlink_to(target)

    with pytest.raises(Refused) as refused:
        tree.link_name("sys/deep/driver")

    assert refused.value.reason is Reason.BROKEN_SYSFS


def test_a_directory_without_end_is_not_listed(tree: HostTree, sys: Path) -> None:
    for number in range(MAX_CHILDREN + 1):
        (sys / str(number)).touch()

    with pytest.raises(Refused, match="more than 4096 entries"):
        tree.children("sys")
