"""A TLS handshake with the webhook's server, as an API server makes it. Nothing is sent over it."""

import socket
import ssl
from collections.abc import Iterable, Sequence

from cli.doctor.facts import Objects, RawObject
from webhook.raw import mapping, mappings

_SECONDS = 2.0
_TRIES = 4
"""Addresses that are tried, of an installation with many replicas."""


def addresses(endpoints: Objects) -> list[tuple[str, int]]:
    """Return where the ready servers behind a Service listen."""
    return [
        (str(address), port["port"])
        for each in endpoints
        for port in mappings(each, "ports")
        for endpoint in mappings(each, "endpoints")
        if is_ready(endpoint)
        for address in endpoint.get("addresses") or []
        if isinstance(port.get("port"), int)
    ]


def is_ready(endpoint: RawObject) -> bool:
    """True for an endpoint that gets calls. Source: k8s.io/api/discovery/v1, EndpointConditions (unset means ready)."""
    return mapping(endpoint, "conditions").get("ready") is not False


def handshakes(where: Sequence[tuple[str, int]], name: str, bundles: Iterable[bytes]) -> dict[bytes, str] | None:
    """Return for each caBundle why a caller that trusts it refuses the server, "" where it does not.

    None where no server can be reached from here.
    """
    wanted = set(bundles)
    for address in where[:_TRIES]:
        try:
            return {bundle: _refusal(address, name, bundle) for bundle in wanted}
        except OSError:
            # Something between here and there: it says nothing of what API servers see.
            continue
    return None


def _refusal(address: tuple[str, int], name: str, bundle: bytes) -> str:
    """Return why the certificate is refused. Raises OSError where none is shown."""
    try:
        context = ssl.create_default_context(cadata=bundle.decode("ascii")) if bundle.strip() else None
    except (ssl.SSLError, UnicodeDecodeError):
        context = None
    with socket.create_connection(address, _SECONDS) as connection:
        if context is None:
            return "it holds no certificate"
        try:
            with context.wrap_socket(connection, server_hostname=name):
                return ""
        except ssl.SSLCertVerificationError as error:
            return error.verify_message
