"""The control groups of a sandbox, in every hierarchy of the machine (version 1, 2 or both)."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PREFIX = "dravirt-"


def make_cgroups(name: str) -> None:
    """Make the group `name`, the parent of a sandbox's pods."""
    for hierarchy in _hierarchies():
        group = hierarchy / name
        group.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            # In version 1 a group has no processors until it is given some.
            if (group / setting).exists() and (hierarchy / setting).exists():
                (group / setting).write_text((hierarchy / setting).read_text())


def remove_cgroups(name: str) -> None:
    """Remove the group `name` and all below it, once their last processes have been reaped."""
    for _ in range(100):
        if not any(_remove(hierarchy / name) for hierarchy in _hierarchies()):
            return
        time.sleep(0.1)


def sweep_cgroups() -> None:
    """Remove what sandboxes left behind whose watcher was killed too. Groups in use cannot be removed."""
    for hierarchy in _hierarchies():
        for group in hierarchy.glob(f"{PREFIX}*"):
            if not Path(f"/proc/{group.name.removeprefix(PREFIX)}").exists():
                _remove(group)


def memory_of(pid: int) -> tuple[int, int]:
    """Return what the control group of a process uses of memory, without the page cache, and its limit, in bytes."""
    groups = dict(line.split(":", 2)[1:] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines())
    if "memory" in groups:  # version 1
        group, limit, used = ROOT / "memory" / groups["memory"].lstrip("/"), "memory.limit_in_bytes", "rss"
    else:
        group, limit, used = ROOT / groups[""].lstrip("/"), "memory.max", "anon"
    statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    return int(statistics[used]), int((group / limit).read_text())


def _hierarchies() -> Iterator[Path]:
    if (ROOT / "cgroup.controllers").exists():
        yield ROOT
        return
    seen = set()
    for folder in sorted(ROOT.iterdir()):
        if folder.is_dir() and not folder.is_symlink() and (device := folder.stat().st_dev) not in seen:
            seen.add(device)
            yield folder


def _remove(group: Path) -> bool:
    """Remove a group and those below it; return whether it is still there."""
    for folder, _, _ in os.walk(group, topdown=False):
        with suppress(OSError):
            Path(folder).rmdir()
    return group.exists()
