"""Admissions at a steady rate: objects that take dravirt's webhooks, created (dry run) over and over."""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import httpx

from cluster.api import Api, ApiError, Object
from cluster.process import until


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that was not answered as it should be."""

    at: float
    """By the monotonic clock."""
    text: str


class Load:
    """A worker for each pair of a client and the object that it creates, while the block runs.

    Each goes on at once, at the full rate, or rests for `rest` seconds after each answer.
    """

    def __init__(self, work: Iterable[tuple[Api, Object]], *, rest: float = 0) -> None:
        self._rest = rest
        self.failures: list[Failure] = []
        self._counts: list[int] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(number, *each)) for number, each in enumerate(work)]
        self._counts = [0] * len(self._threads)

    @property
    def count(self) -> int:
        """Requests that were answered as they should be."""
        return sum(self._counts)

    def go_on(self, more: int = 50) -> None:
        """Return when so many more requests were answered."""
        enough = self.count + more
        until(lambda: self.count >= enough, seconds=120, what=f"{more} more requests answered")

    def _work(self, number: int, api: Api, item: Object) -> None:
        while not self._stop.wait(self._rest):
            try:
                api.create(item, dryRun="All")
                self._counts[number] += 1
            except (ApiError, httpx.TransportError) as error:
                self.failures.append(Failure(time.monotonic(), str(error)))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
