"""Pods that ask again and again, each in a thread of its own, while something happens to those that answer."""

import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from cluster.process import until
from integration.allocations.site import Site, is_late

from dra.errors import DravirtError
from hooksidecar.service import Devices

Outcome = Devices | DravirtError


class Questions:
    """As a context manager it lets `tokens` ask; afterwards all outcomes are in `outcomes`, by token."""

    def __init__(self, site: Site, tokens: Iterable[str]) -> None:
        self._site = site
        self._stop = threading.Event()
        self.outcomes: dict[str, list[Outcome]] = {token: [] for token in tokens}
        self._threads = [threading.Thread(target=self._ask, args=(token,)) for token in self.outcomes]

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for each in self._threads:
            each.join()

    @property
    def answers(self) -> list[Devices]:
        """All answers that held devices."""
        return [each for each in self._all() if not isinstance(each, DravirtError)]

    @property
    def errors(self) -> list[DravirtError]:
        """All answers that held none, and questions that had no answer."""
        return [each for each in self._all() if isinstance(each, DravirtError)]

    @property
    def told(self) -> list[DravirtError]:
        """The `errors` that say more than that time was up."""
        return [each for each in self.errors if not is_late(each)]

    def wait_for(self, condition: Callable[[Self], object], what: str, *, seconds: float = 60) -> None:
        """Go on until `condition` holds. Raises NotReady."""
        until(lambda: condition(self), seconds=seconds, what=what)

    def wait_for_answers(self, more: int = 1) -> None:
        """Go on until each has been answered `more` times from now on."""
        before = {token: self._answered(token) for token in self.outcomes}
        self.wait_for(
            lambda _: all(self._answered(token) >= count + more for token, count in before.items()), "an answer for all"
        )

    def _answered(self, token: str) -> int:
        return sum(not isinstance(each, DravirtError) for each in self.outcomes[token])

    def _all(self) -> list[Outcome]:
        return [each for of in self.outcomes.values() for each in of]

    def _ask(self, token: str) -> None:
        while not self._stop.is_set():
            self.outcomes[token].append(self._site.outcome(token))
