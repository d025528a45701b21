"""What the server is told of its certificates by whoever keeps them, which is no business of its own."""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from webhook.readiness import Check


class CertificateNumbers(Protocol):
    """What is counted of certificates."""

    @property
    def ends(self) -> Mapping[str, float]:
        """Seconds since 1970 at which the certificate in use (`server`) and its authority (`ca`) end."""

    @property
    def reloads(self) -> int:
        """Certificates put to use."""

    @property
    def failures(self) -> int:
        """Looks at where they come from that failed, and certificates that could not be used."""


@dataclass(frozen=True, slots=True)
class ServingCertificates:
    """The certificates of a server with TLS."""

    tls: ssl.SSLContext
    check: Check
    numbers: CertificateNumbers
    authorities: Callable[[], str] | None
    """Gives those that sidecars must trust, PEM, "" while they are not known; None where they never will be."""
