"""TLS of the server: a certificate that can change while the server runs, without a lost connection.

The context that the server listens with hands each handshake to the context of the moment (`sni_callback`, called with
and without a server name). Loading files into a context that is in use would be simpler and is unsafe: a certificate
whose key does not fit would leave it broken.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from dra.errors import Failed, Refused
from dra.reasons import Reason

VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
"""The versions that may be the least."""


class ServingTLS:
    """The server's TLS: `context` to listen with, `swap` to change the certificate. Until the first, nobody is served.

    `minimum` is a key of `VERSIONS`; `ciphers` names those of TLS 1.2 as OpenSSL does, "" for its defaults. Raises
    Refused where no such cipher is known.
    """

    def __init__(self, minimum: str = "1.2", ciphers: str = "") -> None:
        self._minimum, self._ciphers = VERSIONS[minimum], ciphers
        self._current: ssl.SSLContext | None = None
        self.context = self._new()
        self.context.sni_callback = self._choose

    def swap(self, chain: bytes, key: bytes) -> None:
        """Serve this certificate chain and key, both PEM, from the next handshake on.

        Raises Failed where they cannot be used together; what was served before stays then.
        """
        context = self._new()
        try:
            with _in_memory(chain) as chain_file, _in_memory(key) as key_file:
                # (a password, or it would ask for that of an encrypted key at the terminal)
                context.load_cert_chain(chain_file, key_file, password="")
        except OSError as error:  # ssl.SSLError is one
            raise Failed(Reason.INVALID_CERTIFICATE, f"the certificate with its key: {error}") from error
        self._current = context

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> int | None:
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._current
        return None

    def _new(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = self._minimum
        # Never HTTP/2, whatever the server library offers by default: one client could open streams without bound.
        context.set_alpn_protocols(["http/1.1"])
        # A session that is resumed would show the certificate of its first connection.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        if self._ciphers:
            try:
                context.set_ciphers(self._ciphers)
            except ssl.SSLError as error:
                message = f"OpenSSL knows none of the ciphers {self._ciphers[:200]!a}"
                raise Refused(Reason.INVALID_CONFIGURATION, message) from error
        return context


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """Give the path of a file that is on no disk: Python's ssl reads keys from files, and a pod's disk is read-only."""
    with os.fdopen(os.memfd_create("tls"), "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"
