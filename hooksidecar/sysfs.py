"""The file tree of the host: sysfs and /dev, read only, and nothing outside them.

In a pod the tree's root is `/`; for a test or a dry run it is a folder that holds `sys/` and `dev/` as data. Such a
folder may come from anyone, so every path is resolved before it is used, and what leads out of the root, has no end or
holds no text is refused.
"""

import errno
import itertools
import os
import stat
from pathlib import Path

from dra.errors import DravirtError, Failed, Refused
from dra.reasons import Reason

MAX_TEXT = 64 * 1024
"""Bytes of a file. The kernel gives an attribute one page: 4 KiB, or 64 KiB on some arm64."""
MAX_CHILDREN = 4096
"""Entries of a directory: a physical function has at most a few hundred virtual ones."""
MAX_LINKS = 40
"""Symbolic links that lead to each other: as many as Linux follows."""

# Neither a FIFO put in the way of a file nor a link put there after the check may hold us up or lead us away.
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class HostTree:
    """One look at a host's files below `root`. Paths are relative to it: `sys/bus/pci/devices`.

    What is absent is None, False or empty. Everything else that cannot be read raises Refused (`broken_sysfs`), or
    Failed (`unreadable`) where the kernel answers with an error that may pass.
    Where an entry leads is looked up once, since the functions of a board share most of their paths: a host that may
    have changed meanwhile needs another look.
    """

    __slots__ = ("_found", "_prefix", "_root")

    def __init__(self, root: Path) -> None:
        self._root = os.path.realpath(root)
        self._prefix = self._root.rstrip("/") + "/"
        self._found: dict[str, tuple[str, bool]] = {}

    def fresh(self) -> "HostTree":
        """Return another look at the same host."""
        return HostTree(Path(self._root))

    def at(self, path: str) -> str:
        """Return `path` as a person on this machine finds it."""
        return self._prefix + path.lstrip("/")

    def broken(self, path: str, what: str) -> Refused:
        """Return the error that says what is wrong with the entry at `path`, to be raised."""
        return Refused(Reason.BROKEN_SYSFS, what, path=self.at(path))

    def exists(self, path: str) -> bool:
        """True if there is something at the end of `path`."""
        return self._real(path) is not None

    def read(self, path: str) -> str | None:
        """Return the text of a file without the white space around it."""
        real = self._real(path)
        if real is None:
            return None
        try:
            content = _content(real)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failure(path, error) from error
        if content is None:
            raise self.broken(path, "is no regular file")
        if len(content) > MAX_TEXT:
            raise self.broken(path, f"holds more than {MAX_TEXT} bytes")
        try:
            text = content.decode().strip()
        except UnicodeDecodeError as error:
            raise self.broken(path, f"is no UTF-8 text: {error.reason} at byte {error.start}") from error
        if not text.replace("\n", "").replace("\t", "").isprintable():
            raise self.broken(path, "is no text: it holds control characters")
        return text

    def line(self, path: str) -> str | None:
        """Return the text of a file that holds one line."""
        text = self.read(path)
        if text is not None and "\n" in text:
            raise self.broken(path, "holds more than one line")
        return text

    def link_name(self, path: str) -> str | None:
        """Return the last part of what a symbolic link names: the driver of `driver`, the group of `iommu_group`."""
        self._real(path)  # refuses what leads outside or has no end
        folder, _, name = path.rpartition("/")
        real_folder = self._real(folder)
        if real_folder is None:
            return None
        try:
            target = Path(real_folder, name).readlink()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise self.broken(path, "is no symbolic link") from error
            raise self._failure(path, error) from error
        return self._plain(path, target.name)

    def children(self, path: str) -> tuple[str, ...]:
        """Return the names in a directory, sorted."""
        real = self._real(path)
        if real is None:
            return ()
        try:
            with os.scandir(real) as entries:
                names = [entry.name for entry in itertools.islice(entries, MAX_CHILDREN + 1)]
        except FileNotFoundError:
            return ()
        except NotADirectoryError as error:
            raise self.broken(path, "is no directory") from error
        except OSError as error:
            raise self._failure(path, error) from error
        if len(names) > MAX_CHILDREN:
            raise self.broken(path, f"holds more than {MAX_CHILDREN} entries")
        return tuple(sorted(self._plain(path, name) for name in names))

    def _real(self, path: str) -> str | None:
        """Return where `path` leads after all links, None where nothing is there."""
        try:
            real, found = self._walk(self._root, path, MAX_LINKS)
        except OSError as error:
            raise self._failure(path, error) from error
        if not self._holds(real):
            raise self.broken(path, f"leads to {real[:200]!r}, outside {self._root}")
        return real if found else None

    def _walk(self, folder: str, path: str, links: int) -> tuple[str, bool]:
        """Return where `path` leads from a real folder and whether something is there.

        Nothing outside the root is looked at: the way ends where it leaves it.
        """
        real, found = folder, True
        for name in path.split("/"):
            if name == "..":
                real = real.rpartition("/")[0] or "/"
            elif name not in ("", "."):
                real, found = self._entry(real, name, links)
            if not found or not self._holds(real):
                break
        return real, found

    def _entry(self, folder: str, name: str, links: int) -> tuple[str, bool]:
        """Return where an entry of a real folder leads and whether something is there."""
        entry = f"{folder.rstrip('/')}/{name}"
        if entry not in self._found:
            self._found[entry] = self._follow(folder, entry, links)
        return self._found[entry]

    def _follow(self, folder: str, entry: str, links: int) -> tuple[str, bool]:
        try:
            if not stat.S_ISLNK(os.lstat(entry).st_mode):
                return entry, True
            target = os.readlink(entry)  # noqa: PTH115 (making a Path takes longer than the call)
        except (FileNotFoundError, NotADirectoryError):
            return entry, False
        if not links:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if not target.startswith("/"):
            return self._walk(folder, target, links - 1)
        if self._holds(target):
            return self._walk(self._root, target[len(self._root) :], links - 1)
        return target, False

    def _holds(self, real: str) -> bool:
        """True for the root and what lies below it."""
        return real == self._root or real.startswith(self._prefix)

    def _plain(self, path: str, name: str) -> str:
        """Return a name that is safe to print and to make a path of."""
        if name in ("", ".", "..") or not name.isprintable():
            raise self.broken(path, f"holds the name {name[:80]!r}, which no entry of sysfs has")
        return name

    def _failure(self, path: str, error: OSError) -> DravirtError:
        if error.errno == errno.ELOOP:
            return self.broken(path, "is a loop of symbolic links, or a chain without end")
        return Failed(Reason.UNREADABLE, f"{self.at(path)}: cannot be read: {error.strerror}")


def _content(path: str) -> bytes | None:
    """Return at most one byte more than allowed, None where the path is no regular file.

    Looked at before it is opened: opening /dev/vfio/<group> would take the group.
    """
    if not stat.S_ISREG(os.lstat(path).st_mode):
        return None
    with os.fdopen(os.open(path, _OPEN), "rb") as file:
        return file.read(MAX_TEXT + 1)
