"""A bound on what is done at a time: some are served, some wait, the rest is told to come again."""

import asyncio
from types import TracebackType

from dra.errors import Failed
from dra.reasons import Reason

AT_A_TIME = 8
"""Answers under way: their slices are held in memory, and admissions share the processor."""
WAITING = 512
"""Pods that start at once wait for their turn: an answer takes some milliseconds."""


class Gate:
    """Lets `at_a_time` in, keeps `waiting` more in line, and raises Failed for the rest."""

    def __init__(self, at_a_time: int = AT_A_TIME, waiting: int = WAITING) -> None:
        self._free = asyncio.Semaphore(at_a_time)
        self._room = at_a_time + waiting

    async def __aenter__(self) -> None:
        if self._room == 0:
            raise Failed(Reason.BUSY, "too many pods ask at once: try again")
        self._room -= 1
        try:
            await self._free.acquire()
        except BaseException:
            self._room += 1
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._free.release()
        self._room += 1
