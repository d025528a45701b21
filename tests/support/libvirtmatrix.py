"""The matrix that the libvirt tests print: what libvirt and QEMU said to each case with each kind of device."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby

from support.libvirtverdict import Stage, Verdict

PROPERTY = "libvirt"
"""The name of the property under which a test reports its cell."""
_LETTERS = {Stage.DEFINE: "d", Stage.READ_BACK: "r", Stage.SECOND_PASS: "s", Stage.QEMU: "q"}


@dataclass(frozen=True, slots=True)
class Cell:
    """One VM, from one KubeVirt release, with one kind of device."""

    versions: str
    tag: str
    case: str
    kind: str
    passed: str
    drops: int
    unknown: bool

    @classmethod
    def of(cls, verdict: Verdict, *, versions: str, tag: str, case: str, kind: str) -> "Cell":
        passed = "".join(letter if stage in verdict.passed else "." for stage, letter in _LETTERS.items())
        return cls(versions, tag, case, kind, passed, len(verdict.drops), bool(verdict.unknown))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Cell":
        return cls(**json.loads(text))

    def __str__(self) -> str:
        return self.passed + ("*" if self.unknown else "")


def matrix(cells: Sequence[Cell], kinds: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the matrix: a row for each case, a column for each of the `kinds`, and the counts."""
    cells = sorted(cells, key=lambda cell: (cell.tag, cell.case))
    yield f"{', '.join(sorted({cell.versions for cell in cells}))}"
    yield ", ".join(f"{letter} {stage}" for stage, letter in _LETTERS.items()) + "; . not passed"
    first = max(len(cell.case) for cell in cells)
    yield f"{'':8} {'':{first}}  " + " ".join(f"{kind:9}" for kind in kinds)
    for (tag, case), row in groupby(cells, key=lambda cell: (cell.tag, cell.case)):
        by_kind = {cell.kind: str(cell) for cell in row}
        yield f"{tag:8} {case:{first}}  " + " ".join(f"{by_kind.get(kind, ''):9}" for kind in kinds)
    yield from _notes(cells)


def _notes(cells: Sequence[Cell]) -> Iterator[str]:
    if any(cell.unknown for cell in cells):
        yield "* wants a display on a PCI device, which libvirt knows from 10.3.0 on and this one leaves out"
    yield (
        "d: as type='qemu', without hugepages, TPM and <maxMemory slots='0'>, taps as user networks; host devices as "
        "they are"
    )
    yield (
        "q: from a copy with <driver name='vfio'/> in PCI devices, which libvirt's conversion wants on a host without "
        "VFIO"
    )
    counts = ", ".join(f"{sum(letter in cell.passed for cell in cells)} {stage}" for stage, letter in _LETTERS.items())
    yield f"{len(cells)} cells, passed: {counts}; {sum(cell.drops for cell in cells)} silent drops"
