"""Small controllers of the suites' own: one step, again and again, in a thread."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

import httpx

from cluster.api import ApiError
from cluster.process import NotReady

PAUSE = 0.3
"""Seconds between two steps."""


class Loop:
    """Repeats `step` while the block runs. What the API server refuses is tried again, as controllers do."""

    def __init__(self, step: Callable[[], None]) -> None:
        self._step, self._stop = step, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(PAUSE):
            try:
                self._step()
            except (ApiError, httpx.TransportError, NotReady):
                continue
