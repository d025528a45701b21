"""The corpus: pods, domains and VMIs as KubeVirt itself renders them, by release tag and case.

`DRAVIRT_CORPUS` names its folder: `kubevirt/<tag>/{pods,domains,vmis,passes}/<case>...`, `live/` (reviews of a real API
server) and, beside it, `../bugs/inputs/`. A test takes its cases by parametrisation:

    @pytest.mark.parametrize("case", corpus_cases("domains", optin=True))
    def test_each_domain_gets_its_device(case):
        edit(case.domain(), case.vmi())

or, for single files, is marked `corpus` and asks for the fixtures `corpus` or `bug_inputs`. Without the folder such
tests are skipped, under DRAVIRT_REQUIRE=all they fail.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

Part = Literal["pods", "domains", "vmis", "passes"]

OPTIN = "opt-"
"""The prefix of the cases that carry our annotation; every other case must be left alone."""

MISSING = "DRAVIRT_CORPUS does not name the folder of the corpus"
_PLACEHOLDER = pytest.param(None, marks=pytest.mark.corpus, id="no-corpus")


@dataclass(frozen=True, slots=True)
class Case:
    """One case of one KubeVirt release."""

    tag: str
    name: str
    folder: Path

    @property
    def optin(self) -> bool:
        """True where the VMI carries `dravirt.io/devices`."""
        return self.name.startswith(OPTIN)

    def pod(self) -> dict[str, Any]:
        """Return the launcher pod before any admission."""
        return json.loads((self.folder / "pods" / f"{self.name}.json").read_bytes())

    def vmi(self) -> dict[str, Any]:
        """Return the VMI as virt-launcher hands it to its hooks."""
        return json.loads(self.vmi_json())

    def vmi_json(self) -> bytes:
        """Return the VMI as text."""
        return (self.folder / "vmis" / f"{self.name}.json").read_bytes()

    def domain(self) -> bytes:
        """Return the domain that the hooks see in the first pass."""
        return (self.folder / "domains" / f"{self.name}.xml").read_bytes()

    def passes(self) -> list[bytes]:
        """Return the domains that the hooks see in pass 1, 2 and, where there is one, 3."""
        files = sorted((self.folder / "passes" / self.name).glob("pass*.in.xml"))
        return [file.read_bytes() for file in files]

    def __str__(self) -> str:
        return f"{self.tag}-{self.name}"


def corpus_root() -> Path | None:
    """Return the folder of the corpus, None where there is none."""
    root = os.environ.get("DRAVIRT_CORPUS")
    return Path(root) if root and (Path(root) / "kubevirt").is_dir() else None


def corpus_tags() -> list[str]:
    """Return the KubeVirt tags of the corpus in their order."""
    root = corpus_root()
    return sorted(folder.name for folder in (root / "kubevirt").iterdir()) if root else []


def corpus_cases(
    part: Part,
    *,
    optin: bool | None = None,
    tags: Iterable[str] | None = None,
    names: Iterable[str] | None = None,
    but: Iterable[str] = (),
) -> list[Any]:
    """Return a parameter of type Case for each case that has this `part`, marked `corpus`, with `<tag>-<case>` as id.

    `optin` True or False keeps the cases with or without our annotation; `tags` and `names` keep those named and `but`
    leaves those named out.
    """
    found = [
        case
        for case in _all_cases(part)
        if (optin is None or case.optin == optin)
        and (tags is None or case.tag in tags)
        and (names is None or case.name in names)
        and case.name not in but
    ]
    if corpus_root() and not found:
        raise ValueError(f"the corpus has no case of {part} with {optin=}, {tags=}, {names=}, {but=}")
    return [pytest.param(case, marks=pytest.mark.corpus, id=str(case)) for case in found] or [_PLACEHOLDER]


def _all_cases(part: Part) -> list[Case]:
    root = corpus_root()
    if root is None:
        return []
    folders = [root / "kubevirt" / tag for tag in corpus_tags()]
    return [
        Case(folder.name, entry.stem, folder)
        for folder in folders
        if (folder / part).is_dir()
        for entry in sorted((folder / part).iterdir())
    ]


def live_reviews(pattern: str = "*.json") -> list[Any]:
    """Return a parameter of type Path for each AdmissionReview of a live API server, in order, marked `corpus`."""
    root = corpus_root()
    files = sorted((root / "live" / "reviews").glob(pattern)) if root else []
    if root and not files:
        raise ValueError(f"the corpus has no live review {pattern}")
    return [pytest.param(file, marks=pytest.mark.corpus, id=file.stem) for file in files] or [_PLACEHOLDER]
