"""The files of the examples: small, whole after a clone, and shaped as KubeVirt's releases shape them."""

import pytest
from lxml import etree
from support.examples import FOLDERS, Example

_MAX_FILES, _MAX_BYTES = 128, 8 * 1024
FILES = {
    "README.md",
    "virtualmachine.yaml",
    "resourceclaimtemplates.yaml",
    "resourceclaims.yaml",
    "resourceslices.yaml",
    "launcher-pod.yaml",
    "domain.xml",
    "node",
}

each_example = pytest.mark.parametrize("example", [pytest.param(Example(folder), id=folder.name) for folder in FOLDERS])


@each_example
def test_an_example_has_every_file_and_no_other(example):
    assert {entry.name for entry in example.folder.iterdir()} == FILES


@each_example
def test_the_node_survives_a_clone(example):
    root = example.node.resolve()
    entries = list(example.node.rglob("*"))
    assert sum(entry.is_symlink() or entry.is_file() for entry in entries) <= _MAX_FILES
    for entry in entries:
        if entry.is_symlink():
            assert not entry.readlink().is_absolute(), entry
            assert entry.resolve(strict=True).is_relative_to(root), entry
        elif entry.is_dir():
            assert any(entry.iterdir()), f"{entry} is empty: git does not keep it"


@each_example
def test_files_are_small_and_end_in_a_newline(example):
    for file in example.folder.rglob("*"):
        if file.is_file() and not file.is_symlink():
            content = file.read_bytes()
            assert len(content) <= _MAX_BYTES, file
            assert content.endswith(b"\n"), file


@each_example
def test_the_domain_has_a_placeholder_per_device_in_order(example):
    hostdevs = etree.fromstring(example.domain()).findall("devices/hostdev")
    names = example.asked().device_names
    assert [each.find("alias").get("name") for each in hostdevs] == [f"ua-gpu-{name}" for name in names]
    assert [each.find("source/address").get("uuid") for each in hostdevs] == [
        f"00000000-0000-4000-8000-{index:012x}" for index in range(len(names))
    ]


@each_example
def test_domain_and_pod_are_of_one_vmi(example):
    vm = example.vm()["metadata"]
    owner = example.pod()["metadata"]["ownerReferences"][0]["uid"]
    domain = etree.fromstring(example.domain())
    assert domain.findtext("name") == f"{vm['namespace']}_{vm['name']}"
    assert f"/{owner}/" in domain.find("devices/graphics/listen").get("socket")


@pytest.mark.parametrize(
    ("folder", "form"),
    [
        pytest.param("time-sliced-mdev", b'<address type="" bus="" uuid=', id="kubevirt-1.5-writes-empty-attributes"),
        pytest.param("mig-backed-mdev", b"<address uuid=", id="kubevirt-1.8-writes-the-uuid-alone"),
    ],
)
def test_the_placeholder_has_the_form_of_its_release(folder, form):
    examples = {each.name: Example(each) for each in FOLDERS}
    assert form in examples[folder].domain()


@pytest.mark.parametrize(("folder", "field"), [("mig-backed-mdev", "command"), ("mig-backed-vf", "args")])
def test_the_hook_flag_stands_where_its_release_puts_it(folder, field):
    compute = {each.name: Example(each) for each in FOLDERS}[folder].pod()["spec"]["containers"][0]
    flags = compute[field]
    assert flags[flags.index("--hook-sidecars") + 1] == "0"
