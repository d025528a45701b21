"""Reading files that others write: bounded, regular, and below the folder they belong to."""

import os
import stat
from itertools import islice
from pathlib import Path

from dra.errors import Failed, Refused
from dra.reasons import Reason

MAX_ENTRIES = 256
"""Entries of a folder: a claim has at most 32 requests, a request a file per driver."""

# Neither a FIFO in the way of a file nor a link put there after the check may hold us up or lead us away.
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read_file(path: Path, *, within: Path, limit: int) -> bytes | None:
    """Return the content of `path`, None where it is absent.

    It ends after `limit` bytes and one more, by which a reader sees that it is too large. Links may lead to any place
    below `within`. Raises Refused where they lead out or the file is none, Failed where it cannot be read.
    """
    try:
        fd = os.open(_inside(path, within), _OPEN)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise Refused(Reason.UNREADABLE, "is no regular file", path=str(path))
            with os.fdopen(fd, "rb", closefd=False) as file:
                return file.read(limit + 1)
        finally:
            os.close(fd)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error) from error


def entries(folder: Path, *, within: Path) -> list[str] | None:
    """Return the names in `folder` in their order, None where it is absent. Raises as `read_file`."""
    try:
        with os.scandir(_inside(folder, within)) as found:
            names = [entry.name for entry in islice(found, MAX_ENTRIES + 1)]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(folder, error) from error
    if len(names) > MAX_ENTRIES:
        raise Refused(Reason.UNREADABLE, f"holds more than {MAX_ENTRIES} entries", path=str(folder))
    return sorted(names)


def _inside(path: Path, within: Path) -> str:
    """Return the real path of `path`, which must be at or below `within`."""
    root, real = os.path.realpath(within), os.path.realpath(path)
    if os.path.commonpath([root, real]) != root:
        raise Refused(Reason.UNREADABLE, f"is a link that leads out of {within}", path=str(path))
    return real


def _unreadable(path: Path, error: OSError) -> Failed:
    return Failed(Reason.UNREADABLE, f"{path}: {error.strerror}")
