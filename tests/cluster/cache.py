"""Where built programs and images are kept: outside the tree, keyed by what they are built from."""

import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_root() -> Path:
    """Return the cache's folder: DRAVIRT_CLUSTER_CACHE, else `dravirt/cluster` in the user's cache."""
    if configured := os.environ.get("DRAVIRT_CLUSTER_CACHE"):
        return Path(configured)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dravirt" / "cluster"


def key_of(files: Iterable[Path], *more: str) -> str:
    """Return a short key that changes with the content of `files` and with each text of `more`."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(f"{path.name}\0".encode() + path.read_bytes())
    for text in more:
        digest.update(b"\0" + text.encode())
    return digest.hexdigest()[:12]


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Hold `folder` while it is being filled, so that two runs do not build the same thing."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
