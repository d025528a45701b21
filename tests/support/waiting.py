"""Waiting for what a process does by itself."""

import time
from collections.abc import Callable


def wait_until(true: Callable[[], object], *, seconds: float = 20, what: str = "it") -> None:
    """Wait until `true` is, and fail after `seconds`."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"{what} did not come true in {seconds} s"
        time.sleep(0.02)
