"""Where a certificate comes from: one protocol for what dravirt keeps itself and for what others keep."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Offer:
    """What should be served now."""

    chain: bytes
    """The certificate and those between it and its authority, PEM."""
    key: bytes = field(repr=False)
    """Its private key, PEM."""
    ends: Mapping[str, dt.datetime]
    """When it ends (`server`), and its authority where that is known (`ca`)."""
    trusted: bool = True
    """False where an API server is known not to trust it."""
    detail: str = ""
    """What is worth a look."""
    authorities: bytes = b""
    """Those to trust, PEM, for clients that are told by us; empty where they are not known."""


class Source(Protocol):
    """Something that has a certificate to offer."""

    def read(self) -> Offer:
        """Return what should be served now. Raises Refused or Failed; what was served before stays then."""
        ...
