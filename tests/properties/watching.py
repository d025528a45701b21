"""Which files are opened: by Python code of this process, and by anything at all."""

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_EVENTS = ("open", "os.listdir", "os.scandir")
_watching = threading.local()


def _note(event: str, args: tuple[object, ...]) -> None:
    paths: list[str] | None = getattr(_watching, "paths", None)
    if paths is not None and event in _EVENTS and isinstance(args[0], str | bytes | os.PathLike):
        paths.append(os.fsdecode(args[0]))


# A hook cannot be removed; it notes nothing unless asked to.
sys.addaudithook(_note)


@contextmanager
def opened_by_python() -> Iterator[list[str]]:
    """Give the paths of the files and folders that this thread opens meanwhile."""
    _watching.paths = paths = []
    try:
        yield paths
    finally:
        _watching.paths = None


_IN_ACCESS, _IN_OPEN, _NONBLOCK = 0x1, 0x20, 0o4000
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def touched(path: Path) -> Iterator[list[bool]]:
    """Give a list that is [True] in the end if anything, C libraries among it, opened or read `path` meanwhile."""
    result: list[bool] = []
    fd = _libc.inotify_init1(_NONBLOCK)
    assert fd >= 0, os.strerror(ctypes.get_errno())
    try:
        assert _libc.inotify_add_watch(fd, os.fsencode(path), _IN_ACCESS | _IN_OPEN) >= 0
        yield result
        try:
            result.append(bool(os.read(fd, 4096)))
        except BlockingIOError:
            result.append(False)
    finally:
        os.close(fd)
