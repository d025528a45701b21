"""A server of ours as a process of its own: started, waited for, and ended with the command that started it."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dra.errors import Failed
from dra.reasons import Reason

_START_SECONDS = 40.0
_STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Server:
    """A running server, what it has written to stderr, and how long it took to be ready."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    seconds: float = 0.0

    def written(self) -> str:
        """Return what the server has logged so far."""
        return self.log.read_text(errors="replace")


@contextmanager
def running(
    name: str, arguments: list[str], log: Path, *, ready: Callable[[Server], bool], env: Mapping[str, str]
) -> Iterator[Server]:
    """Run `dravirt ARGUMENTS` until the block ends, from when `ready` says so.

    Raises Failed with what the server wrote where it ends or is not ready in time.
    """
    started = time.monotonic()
    with log.open("wb") as stderr:
        process = subprocess.Popen(  # noqa: S603 (our own program)
            [sys.executable, "-P", "-m", "cli", *arguments], stdout=subprocess.DEVNULL, stderr=stderr, env=dict(env)
        )
    server = Server(name, process, log)
    try:
        while not ready(server):
            if process.poll() is not None:
                raise Failed(
                    Reason.NOT_SERVING, f"the {name} ended with code {process.returncode}:\n{server.written()}"
                )
            if time.monotonic() - started > _START_SECONDS:
                raise Failed(Reason.NOT_SERVING, f"the {name} was not ready in time:\n{server.written()}")
            time.sleep(0.01)
        yield Server(name, process, log, time.monotonic() - started)
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
