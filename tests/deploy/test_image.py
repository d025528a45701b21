"""What the Containerfile takes, and what its packages are pinned to."""

import re
import tomllib
from fnmatch import fnmatch

from packaging.requirements import Requirement
from packaging.version import Version
from support.examples import ROOT

CONTAINERFILE = (ROOT / "Containerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PINS = dict(line.split("==") for line in (ROOT / "deploy/image/constraints.txt").read_text().splitlines())


def test_what_is_copied_is_there_and_sent_to_the_build():
    copied = [
        name for line in re.findall(r"^COPY (?!--from)(.+)$", CONTAINERFILE, re.MULTILINE) for name in line.split()[:-1]
    ]
    lines = (ROOT / ".containerignore").read_text().splitlines()
    sent = [line.removeprefix("!") for line in lines if line.startswith("!")]

    assert copied
    for name in copied:
        assert (ROOT / name).exists(), name
        assert any(name == each or name.startswith(f"{each}/") for each in sent), name
    assert "*" in lines
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert set(packages) <= set(copied)


def test_both_images_are_of_one_base_that_is_named_to_the_patch_release():
    assert re.search(r"^ARG BASE=\S+:\d+\.\d+\.\d+-", CONTAINERFILE, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", CONTAINERFILE, re.MULTILINE)) == {"${BASE}", "tools"}
    assert re.findall(r"^FROM \S+ AS (\S+)$", CONTAINERFILE, re.MULTILINE)[-2:] == ["hooksidecar", "webhook"]


def test_every_package_is_pinned_within_what_the_project_allows():
    asked = [
        *PROJECT["project"]["dependencies"],
        *PROJECT["project"]["optional-dependencies"]["webhook"],
        *PROJECT["build-system"]["requires"],
    ]
    pins = {re.sub(r"[-_.]+", "-", name).lower(): Version(version) for name, version in PINS.items()}
    for requirement in map(Requirement, asked):
        assert pins[re.sub(r"[-_.]+", "-", requirement.name).lower()] in requirement.specifier


def test_nothing_of_the_development_tools_is_pinned_into_images():
    assert not [
        name for name in PINS if any(fnmatch(name, each) for each in ("pytest*", "mypy*", "ruff", "grpcio-tools"))
    ]
