"""A TLS handshake with the webhook's server, as an API server makes it. Nothing is sent over it."""

import socket
import ssl
from collections.abc import Iterable, Iterator, Sequence

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
    reached = next(_reachable(where[:_TRIES]), None)
    return None if reached is None else {bundle: _refusal(reached, name, bundle) for bundle in set(bundles)}


def _reachable(where: Sequence[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    for address in where:
        try:
            socket.create_connection(address, _SECONDS).close()
        except OSError:
            continue
        yield address


def _refusal(address: tuple[str, int], name: str, bundle: bytes) -> str:
    try:
        context = ssl.create_default_context(cadata=bundle.decode("ascii")) if bundle.strip() else None
    except (ssl.SSLError, UnicodeDecodeError, ValueError):
        context = None
    if context is None:
        return "it holds no certificate"
    try:
        with (
            socket.create_connection(address, _SECONDS) as connection,
            context.wrap_socket(connection, server_hostname=name),
        ):
            return ""
    except ssl.SSLCertVerificationError as error:
        return f"{error.verify_message}"
    except OSError as error:
        return f"no handshake: {error}"
