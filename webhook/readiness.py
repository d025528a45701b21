"""Readiness: what must be in place before the API server may send reviews."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing that must be in place."""

    ready: bool
    detail: str = ""
    """What is wrong, or worth a look although it is ready."""


Check = Callable[[], Condition]


class Readiness:
    """The named checks of a server, and whether it is about to stop."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = checks
        self.draining = False
        """Set when the server is about to stop: it answers until then, and asks its clients to go elsewhere."""

    def conditions(self) -> dict[str, Condition]:
        """Return the conditions by name, as they are now."""
        serving = Condition(not self.draining, "draining" if self.draining else "")
        return {"serving": serving} | {name: check() for name, check in self._checks.items()}
