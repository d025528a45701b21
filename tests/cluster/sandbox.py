"""Namespaces in which a cluster and its tests run: when the first process ends, all of it is gone.

Network, mounts and processes are private; the cluster's state is on a tmpfs that no one else sees. Only control groups
are the machine's: the sandbox has one parent of its own, which a watcher removes when the sandbox has ended, however
it ended.
"""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.cgroups import make_cgroups, remove_cgroups, sweep_cgroups
from cluster.network import BRIDGE, HOST_NETWORK

STATE = Path("/run/cluster")
"""The cluster's folder inside the sandbox."""
_INSIDE, _LOGS, _IMAGES = "DRAVIRT_CLUSTER_SANDBOX", "DRAVIRT_CLUSTER_LOGS", "DRAVIRT_CLUSTER_IMAGES"
_PRIVATE = ("/run", "/var/log", "/var/lib/cni")
"""Folders that programs write to wherever they are told to keep their state."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What a process inside knows of its sandbox."""

    state: Path
    logs: Path
    """Outside, so that they outlive the sandbox."""
    cgroup: str
    images: Path | None
    """The folder of dravirt's images: they are built outside, where there is a network."""


def current() -> Sandbox | None:
    """Return the sandbox that this process is in, None outside."""
    name = os.environ.get(_INSIDE)
    if not name:
        return None
    images = os.environ.get(_IMAGES)
    return Sandbox(STATE, Path(os.environ[_LOGS]), name, Path(images) if images else None)


def start(
    command: Sequence[str], logs: Path, images: Path | None = None, *, detached: bool = False, **popen: Any
) -> subprocess.Popen[bytes]:
    """Start `command` in a new sandbox and return the process that ends with it.

    Ending that process by any signal ends everything in the sandbox, and unless `detached` so does the end of this one.
    """
    sweep_cgroups()
    name = f"dravirt-{os.getpid()}"
    make_cgroups(name)
    logs.mkdir(parents=True, exist_ok=True)
    unshare = ["unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]
    environment = {**os.environ, _INSIDE: name, _LOGS: str(logs), _IMAGES: str(images or "")}
    tie = [] if detached else ["setpriv", "--pdeathsig", "KILL"]
    inside = [*tie, *unshare, "--mount-proc", sys.executable, "-m", "cluster.sandbox", *command]
    process = subprocess.Popen(inside, env=environment, **popen)
    _watch(process.pid, name)
    return process


def _watch(pid: int, cgroup: str) -> None:
    """Leave a process behind that removes the control groups when `pid` has ended."""
    if os.fork():
        os.wait()
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    for descriptor in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
    with suppress(OSError):
        os.closerange(3, 256)
    # Signals that end the run (a terminal's interrupt, a job's end) must not end its cleaner.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _wait_for(pid)
    remove_cgroups(cgroup)
    os._exit(0)


def _wait_for(pid: int) -> None:
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        select.select([descriptor], [], [])


def _first_process(command: Sequence[str]) -> int:
    """Be the sandbox's first process: prepare it, run `command`, and reap what others leave behind."""
    _make_private()
    _make_network()
    child = os.spawnvp(os.P_NOWAIT, command[0], list(command))
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(child, number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the command as well
    while True:
        pid, status = os.wait()
        if pid == child:
            return os.waitstatus_to_exitcode(status)


def _make_private() -> None:
    for folder in _PRIVATE:
        Path(folder).mkdir(parents=True, exist_ok=True)
        _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", folder)
    STATE.mkdir()


def _make_network() -> None:
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "link", "add", BRIDGE, "type", "bridge")
    _run("ip", "address", "add", HOST_NETWORK, "dev", BRIDGE)
    _run("ip", "link", "set", BRIDGE, "up")
    # A node without a default route finds no address for itself.
    _run("ip", "route", "add", "default", "dev", BRIDGE)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.exit(_first_process(sys.argv[1:]))
