"""The account of a simulation: what happened, step by step, for a person at a terminal."""

import difflib
import sys
from collections.abc import Iterable
from typing import TextIO

_ROW = 140
_GREEN, _RED, _BOLD, _DIM, _PLAIN = "\033[32m", "\033[31m", "\033[1m", "\033[2m", "\033[0m"


class Account:
    """Prints headings, facts and differences; colour only on a terminal."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._colour = self._out.isatty()

    def heading(self, number: int, text: str) -> None:
        """Begin a step."""
        self._line(self._paint(f"\n{number}. {text}", _BOLD))

    def fact(self, label: str, text: str) -> None:
        """State one fact of the step."""
        self._line(f"   {label:<14} {text}")

    def difference(self, before: str, after: str, *, context: int = 1) -> None:
        """Show what changed between two texts: added lines in green, removed ones in red."""
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=context)
        for line in list(lines)[2:]:
            self._line("   " + self._paint(_shorten(line), _colour_of(line)))

    def _line(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def _paint(self, text: str, colour: str) -> str:
        return f"{colour}{text}{_PLAIN}" if self._colour and colour else text


def listed(names: Iterable[object]) -> str:
    """Return the names in one line."""
    return ", ".join(map(str, names)) or "none"


def _colour_of(line: str) -> str:
    return {"+": _GREEN, "-": _RED, "@": _DIM}.get(line[:1], "")


def _shorten(line: str) -> str:
    """Keep a line to one row of a terminal: an intent is a long one."""
    return line if len(line) <= _ROW else f"{line[:_ROW]} …"
