"""What is kept in a cluster, apart from how it is reached: a Secret by compare-and-swap, configurations by patch."""

import base64
import binascii
import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from certs.cabundle import Operation, RawObject
from dra.errors import Failed
from dra.reasons import Reason


class Conflict(Failed):
    """Somebody else changed the object first: read it again."""

    def __init__(self, message: str) -> None:
        super().__init__(Reason.CONFLICT, message)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the Secret is, and the name of the webhook configurations."""

    namespace: str
    secret: str
    configuration: str


@dataclass(frozen=True, slots=True)
class Reading:
    """The Secret as it was read, None where it is not there, and the API server's clock at that moment.

    Its clock, not ours: it is the API server that judges the dates, and replicas whose clocks differ must not undo each
    other's work.
    """

    now: dt.datetime
    secret: RawObject | None

    @property
    def data(self) -> dict[str, bytes]:
        """The data of the Secret; what is no base64 is left out."""
        found = {}
        for name, value in ((self.secret or {}).get("data") or {}).items():
            try:
                found[name] = base64.b64decode(value, validate=True)
            except (binascii.Error, TypeError):
                continue
        return found


class Store(Protocol):
    """The objects of one installation. Every method raises Failed, Conflict where it was too late."""

    place: Place

    def configurations(self) -> tuple[RawObject, ...]:
        """Return the webhook configurations that are there, each with its `kind`."""
        ...

    def patch(self, configuration: RawObject, operations: Sequence[Operation]) -> RawObject:
        """Change a configuration by JSON Patch and return it as it is then."""
        ...

    def secret(self) -> Reading:
        """Return the Secret."""
        ...

    def write(self, before: Reading, data: Mapping[str, bytes]) -> None:
        """Put `data` into the Secret as it was read, or make it where it was not there; its other keys stay."""
        ...
