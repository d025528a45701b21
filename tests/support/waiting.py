"""Waiting for what a process does by itself, and reading what it has written so far."""

import time
from collections.abc import Callable


def wait_until(true: Callable[[], object], *, seconds: float = 20, what: str = "it") -> None:
    """Wait until `true` is, and fail after `seconds`."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"{what} did not come true in {seconds} s"
        time.sleep(0.02)


def whole_lines(text: str) -> list[str]:
    """Return the lines that are written to their end: the last one of a log may be there by half."""
    return [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
