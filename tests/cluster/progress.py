"""What a person at the terminal sees of long work."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


def say(text: str) -> None:
    """Write a line to the terminal. Results go elsewhere."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


@contextmanager
def step(what: str, hint: str = "") -> Iterator[None]:
    """Say what begins, and how long it took."""
    say(f"{what}{f' ({hint})' if hint else ''} ...")
    began = time.monotonic()
    yield
    say(f"{what}: {time.monotonic() - began:.1f} s")
