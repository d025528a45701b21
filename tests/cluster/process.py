"""Processes that a layer starts: one log file each, readiness, and an end in reverse order."""

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")
GRACE = 5
"""Seconds a process has to end: kube-apiserver would drain long requests for a minute."""


class NotReady(Exception):
    """Something did not come up in time, or ended. The text shows the end of its log."""


class Process:
    """A running program and its log."""

    def __init__(self, name: str, argv: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None) -> None:
        self.name, self.log = name, log
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                [str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    def wait_until(self, probe: Callable[[], T], *, seconds: float, what: str) -> T:
        """Return the first true result of `probe`. Raises NotReady when the process ends or time is up."""
        return until(probe, seconds=seconds, what=f"{self.name}: {what}", failed=self._failure)

    def wait_until_listening(self, host: str, port: int, *, seconds: float) -> None:
        """Return when the process takes connections. Raises NotReady."""

        def connects() -> bool:
            with suppress(OSError), socket.create_connection((host, port), timeout=1):
                return True
            return False

        self.wait_until(connects, seconds=seconds, what=f"listening on {host}:{port}")

    def wait_until_said(self, text: str, *, seconds: float, after: int = 0) -> None:
        """Return when the log holds `text`, from its byte `after` on. Raises NotReady."""
        self.wait_until(
            lambda: text.encode() in self.log.read_bytes()[after:], seconds=seconds, what=f"saying {text!r}"
        )

    def stop(self, grace: float = GRACE) -> None:
        """End the process, at last by SIGKILL."""
        if self._popen.poll() is None:
            self._popen.send_signal(signal.SIGTERM)
            try:
                self._popen.wait(grace)
            except subprocess.TimeoutExpired:
                self.kill()

    def send(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        self._popen.send_signal(number)

    def kill(self) -> None:
        """End the process by SIGKILL."""
        self._popen.kill()
        self._popen.wait()

    def tail(self, lines: int = 25) -> str:
        """Return the last lines of the log."""
        text = self.log.read_text(errors="replace").splitlines()[-lines:]
        return "\n".join(line[:400] for line in text)

    def _failure(self, *, late: bool) -> str | None:
        ended = self._popen.poll()
        if ended is None and not late:
            return None
        state = "still running" if ended is None else f"ended with {ended}"
        return f"({state}); {self.log} ends:\n{self.tail()}"


class Processes:
    """The processes of a cluster. As a context manager it ends them all, the last one first."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        logs.mkdir(parents=True, exist_ok=True)
        self._running: list[Process] = []

    def start(self, name: str, argv: Sequence[str | Path], *, environment: Mapping[str, str] | None = None) -> Process:
        """Start a program whose log is `<name>.log`."""
        process = Process(name, argv, self.logs / f"{name}.log", environment)
        self._running.append(process)
        return process

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._running:
            self._running.pop().stop()


def until(
    probe: Callable[[], T],
    *,
    seconds: float,
    what: str,
    failed: Callable[..., str | None] = lambda **_: None,
    pause: float = 0.1,
) -> T:
    """Return the first true result of `probe`.

    Raises NotReady when time is up, or as soon as `failed(late=False)` gives a text.
    """
    deadline = time.monotonic() + seconds
    while True:
        if result := probe():
            return result
        late = time.monotonic() > deadline
        reason = failed(late=late)
        if late or reason:
            raise NotReady(f"{what} not within {seconds:g} s {reason or ''}")
        time.sleep(pause)
