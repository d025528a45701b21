"""The two images as they are built: what is in them, how large they are, and that another build makes the same."""

import json
import tarfile
from importlib.util import MAGIC_NUMBER

import pytest

from cluster import images, sandbox

pytestmark = [pytest.mark.node, pytest.mark.arm64]
MEGABYTE = 1_000_000
ABOVE_BASE = {"hooksidecar": 40, "webhook": 125}
"""Megabytes, unpacked, that an image may add to its base: a few more than it has."""
PACKAGES = "opt/dravirt/lib/python3.11/site-packages"


@pytest.fixture(scope="module")
def folder():
    running = sandbox.current()
    return running.images or images.dravirt_images()


@pytest.fixture(params=sorted(ABOVE_BASE))
def target(request):
    return request.param


@pytest.fixture
def files(folder, target):
    """What the image adds to its base: name and content of every file, its date and its mode."""
    with tarfile.open(folder / f"{target}.tar") as image:
        last = json.load(image.extractfile("manifest.json"))[0]["Layers"][-1]
        with tarfile.open(fileobj=image.extractfile(last)) as layer:
            yield {each.name: each for each in layer}, layer


def test_an_image_is_small(folder, target, capsys):
    base, *above = images.layers(folder / f"{target}.tar")

    with capsys.disabled():
        print(  # noqa: T201 (the sizes are to be seen in every run)
            f"\nimage {target}: {sum(above) / MEGABYTE:.0f} MB above a base of {base / MEGABYTE:.0f} MB"
        )
    assert sum(above) < ABOVE_BASE[target] * MEGABYTE


def test_an_image_runs_as_qemus_user_and_starts_dravirt(folder, target):
    with tarfile.open(folder / f"{target}.tar") as image:
        name = json.load(image.extractfile("manifest.json"))[0]["Config"]
        config = json.load(image.extractfile(name))["config"]

    assert config["User"] == "107:107"
    assert config["Entrypoint"] == ["/opt/dravirt/bin/dravirt"]
    assert "ExposedPorts" not in config


def test_nothing_in_it_can_be_written_by_its_user_or_takes_on_rights(files):
    found, _ = files
    for name, each in found.items():
        assert each.uid == each.gid == 0, name
        assert each.issym() or not each.mode & 0o6022, name


def test_the_sidecars_image_has_what_the_sidecar_needs_and_no_more(files, target):
    found, _ = files
    packages = {name.removeprefix(f"{PACKAGES}/").split("/")[0] for name in found if name.startswith(f"{PACKAGES}/")}
    ours = {"certs", "cli", "dra", "hooksidecar", "webhook"}
    others = {name for name in packages if not name.endswith(".dist-info")} - ours - {"__pycache__"}

    assert ours < packages
    assert "pip" not in packages
    if target == "hooksidecar":
        assert others == {"grpc", "lxml", "typing_extensions.py"}
    else:
        assert {"fastapi", "kubernetes", "cryptography"} < others


def test_it_bears_no_trace_of_when_it_was_built(files):
    """PEP 552: compiled files that go by the hash of their source, unchecked (flags 1), not by its date (flags 0)."""
    found, layer = files
    compiled = [each for name, each in found.items() if name.endswith(".pyc")]

    assert {each.mtime for each in found.values()} == {0}
    assert len(compiled) > 100
    for each in compiled:
        assert layer.extractfile(each).read(8) == MAGIC_NUMBER + b"\1\0\0\0", each.name
    sources = {name for name in found if name.startswith(f"{PACKAGES}/") and name.endswith(".py")}
    assert len(compiled) == len(sources)
