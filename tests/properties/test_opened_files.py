"""Whatever lies in the folders, no file outside of them is opened, and no entity of a document."""

import contextlib
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties.watching import opened_by_python, touched
from support.claimed import allocated, entry, intent, metadata_json, template_folder, write_metadata
from support.domains import GRAPHICS, mdev, placeholder, small_domain
from support.nodetree import A100_MDEV, LAYOUTS, build, identity

from dra.errors import DravirtError, Refused
from dra.intent import Mode
from hooksidecar.domain import edit_domain
from hooksidecar.metadatafiles import MetadataFiles
from hooksidecar.node import inspect
from hooksidecar.resolver import resolve
from hooksidecar.sysfs import HostTree

SOME = settings(max_examples=60, deadline=None, database=None)
SECRET = "/etc/passwd"

links = st.sampled_from(
    [
        *("../outside", "../../outside", "../../../outside", "../../../../outside", "../../../../../../outside/file"),
        *("/", SECRET, "/proc/self/environ", "/dev/zero", ".", "..", "nowhere", "self", "{root}", "{root}/../outside"),
        *("/proc/self/cwd", "/proc/self/root{root}", "//{root}"),
    ]
)


def entries_below(root: Path) -> list[Path]:
    return sorted(root.rglob("*"))


def put_link(root: Path, number: int, target: str) -> None:
    """Put a link in the place of an entry."""
    entries = entries_below(root)
    entry_ = entries[number % len(entries)]
    if entry_.is_dir() and not entry_.is_symlink():
        shutil.rmtree(entry_)
    else:
        entry_.unlink()
    entry_.symlink_to(target.format(root=root))


def assert_inside(paths: list[str], root: Path) -> None:
    """Assert that what was opened lies below the root, after all links."""
    for path in paths:
        assert Path(os.path.realpath(path)).is_relative_to(root.resolve()), path


@pytest.fixture(scope="module")
def layouts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("layouts")
    for layout in LAYOUTS:
        build(folder / layout, layout)
    return folder


changes = st.lists(st.tuples(st.integers(0, 10**6), links), min_size=1, max_size=4)


@SOME
@given(layout=st.sampled_from(sorted(LAYOUTS)), changed=changes)
def test_links_in_sysfs_lead_to_no_file_outside(layouts, layout, changed):
    with TemporaryDirectory() as folder:
        root = Path(folder, "root")
        shutil.copytree(layouts / layout, root, symlinks=True)
        outside = Path(folder, "outside")
        outside.mkdir()
        (outside / "file").write_text("vfio-pci\n")
        for number, target in changed:
            put_link(root, number, target)
        tree = HostTree(root)
        with opened_by_python() as paths, touched(outside) as hit, contextlib.suppress(DravirtError):
            inspect(tree, identity(LAYOUTS[layout].device))
        assert_inside(paths, root)
        assert hit == [False]


def claim(folder: Path) -> None:
    """Write the metadata of a claim with two requests, by two drivers."""
    write_metadata(template_folder(folder, "vgpu"), allocated("v0", mdevUUID=A100_MDEV))
    write_metadata(template_folder(folder, "vgpu"), driver="z.example")
    write_metadata(template_folder(folder, "other"), allocated("v1", pciBusID="0000:3b:00.4"), request="other/sub")


FILLS = [b"", b"{", b"\xff", b"[]", b"null", b"7", metadata_json({"vgpu": []}).encode(), b"{}" * 20]
fills = st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(FILLS)), max_size=2)


@SOME
@given(changed=changes, filled=fills, request=st.sampled_from([None, "vgpu", "other", "other/sub", "none"]))
def test_links_in_metadata_lead_to_no_file_outside(changed, filled, request):
    with TemporaryDirectory() as folder:
        root = Path(folder, "metadata")
        claim(root)
        outside = Path(folder, "outside")
        outside.mkdir()
        write_metadata(outside, allocated("v9", mdevUUID=A100_MDEV), request="vgpu")
        for number, content in filled:
            files = [path for path in entries_below(root) if path.is_file() and not path.is_symlink()]
            files[number % len(files)].write_bytes(content)
        for number, target in changed:
            put_link(root, number, target)
        with opened_by_python() as paths, touched(outside) as hit, contextlib.suppress(DravirtError):
            devices = resolve(intent(entry(request=request)), [MetadataFiles(root)])
            assert [device.device for device in devices] in (["v0"], ["v1"])
        assert_inside(paths, root)
        assert hit == [False]


def test_the_watch_sees_what_is_opened(tmp_path):
    """Without this the tests above would prove nothing."""
    (tmp_path / "file").write_text("x")
    with opened_by_python() as paths, touched(tmp_path / "file") as hit:
        (tmp_path / "file").read_text()
    assert paths == [str(tmp_path / "file")]
    assert hit == [True]


ENTITIES = {
    "internal": '<!DOCTYPE d [<!ENTITY e "expanded">]>',
    "external": '<!DOCTYPE d [<!ENTITY e SYSTEM "file://{file}">]>',
    "external-subset": '<!DOCTYPE d SYSTEM "file://{file}">',
    "parameter": '<!DOCTYPE d [<!ENTITY % p SYSTEM "file://{file}">%p;]>',
    "public": '<!DOCTYPE d PUBLIC "-//x//y" "{file}">',
    "laughs": "<!DOCTYPE d ["
    + "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "ha"}">' for n in range(10))
    + '<!ENTITY e "&e9;">]>',
    "attribute-default": '<!DOCTYPE d [<!ATTLIST hostdev display CDATA "on">]>',
    "notation": '<!DOCTYPE d [<!NOTATION n SYSTEM "{file}">]>',
}


@pytest.mark.parametrize("use", ["&e;", ""], ids=["used", "declared"])
@pytest.mark.parametrize("doctype", ENTITIES)
def test_no_entity_is_expanded_and_no_file_of_a_document_opened(tmp_path, doctype, use):
    file = tmp_path / "secret"
    file.write_text("<!ENTITY e 'expanded'>")
    domain = small_domain(placeholder("gpu0"), GRAPHICS, rest=f"<description>{use}</description>").decode()
    with touched(file) as hit, pytest.raises(Refused) as refused:
        edit_domain(
            (ENTITIES[doctype].replace("{file}", str(file)) + domain).encode(),
            [mdev("gpu0")],
            mode=Mode.PLACEHOLDER,
            vmi=None,
        )
    assert hit == [False]
    assert "expanded" not in refused.value.message


def test_include_is_left_as_text(tmp_path):
    file = tmp_path / "secret"
    file.write_text("secret")
    include = f'<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="{file}" parse="text"/>'
    with touched(file) as hit:
        answer = edit_domain(
            small_domain(placeholder("gpu0"), GRAPHICS, rest=include), [mdev("gpu0")], mode=Mode.PLACEHOLDER, vmi=None
        )
    assert hit == [False]
    assert include.encode() in answer
