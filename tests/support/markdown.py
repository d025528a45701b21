"""Reading the project's pages: tables, code and links."""

import re
from pathlib import Path

from support.examples import ROOT

_READMES = [path for folder in ("bench", "examples", "tests") for path in (ROOT / folder).rglob("README.md")]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *_READMES])

_CODE = re.compile(r"(?P<ticks>`+)(?P<text>.+?)(?P=ticks)")
_LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
_FENCE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)


def section(page: Path, heading: str) -> str:
    """Return the text of a page from a heading to the next one of its level or above."""
    level = len(heading) - len(heading.lstrip("#"))
    _, found, rest = page.read_text().partition(f"\n{heading}\n")
    assert found, f"{page.name} has no {heading!r}"
    return re.split(rf"^#{{1,{level}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str) -> list[list[str]]:
    """Return the cells of the first table in a text, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [row for row in cells[1:] if not set("".join(row)) <= set("- :")]


def codes(cell: str) -> list[str]:
    """Return the code in a cell, without its backticks."""
    return [found["text"].strip() for found in _CODE.finditer(cell)]


def links(page: Path) -> list[str]:
    """Return where a page links to."""
    return [found["target"] for found in _LINK.finditer(_FENCE.sub("", page.read_text()))]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text()), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
