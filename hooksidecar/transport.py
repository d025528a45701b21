"""The way to the allocation service: one question over TLS. A module of its own, so that another way can come later.

Imported only where the intent names a service: `ssl` and `http.client` cost memory beside every VM.
"""

import http.client
import json
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from dra.answer import MAX_ANSWER, VERSION
from dra.contract import ALLOCATIONS_PATH
from dra.errors import Failed, Refused
from dra.intent import ServiceAddress
from dra.reasons import Reason
from hooksidecar.files import read_file

_CONNECT_SECONDS = 3.0
_READ_SECONDS = 6.0
"""The service answers within 4 s, if only with a reason."""
_MAX_TOKEN = 16 * 1024


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    body: bytes
    retry_after: str | None


def ask(service: ServiceAddress) -> Reply:
    """Return the service's reply to this pod's question. Raises Failed where it cannot be asked, in one line.

    The authority in the intent is the only one that is trusted, and the certificate must be for the server's name,
    also where the URL has an address.
    """
    token = _token(Path(service.token_path))
    url = urlsplit(service.url)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Connection": "close"}
    connection = http.client.HTTPConnection(url.hostname or "", url.port or 443, timeout=_READ_SECONDS)
    try:
        connection.sock = _connect(connection.host, connection.port, service)
        connection.request("POST", ALLOCATIONS_PATH, json.dumps({"version": VERSION}), headers)
        response = connection.getresponse()
        body = response.read(MAX_ANSWER + 1)
        if len(body) > MAX_ANSWER:
            raise Refused(Reason.INVALID_ANSWER, f"is larger than {MAX_ANSWER} bytes", path=service.url)
        if response.length:  # what is still to come: a read with a limit does not tell
            raise http.client.IncompleteRead(body, response.length)
        return Reply(response.status, body, response.getheader("Retry-After"))
    except (OSError, ValueError, http.client.HTTPException) as error:
        # (ValueError: an authority that is none, a host that is no name)
        text = " ".join(str(error).split()) or type(error).__name__
        raise Failed(Reason.SERVICE_UNREACHABLE, f"{service.url}: {text}") from error
    finally:
        connection.close()


def _connect(host: str, port: int, service: ServiceAddress) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=service.ca)
    plain = socket.create_connection((host, port), timeout=_CONNECT_SECONDS)
    try:
        plain.settimeout(_READ_SECONDS)
        return context.wrap_socket(plain, server_hostname=service.server_name)
    except BaseException:
        plain.close()
        raise


def _token(path: Path) -> str:
    """Return the token as it is now: the kubelet renews the file."""
    data = read_file(path, within=path.parent, limit=_MAX_TOKEN)
    if not data:
        raise Failed(
            Reason.SERVICE_UNREACHABLE,
            f"the token cannot be read: {path} is {'not there' if data is None else 'empty'}",
        )
    try:
        return data.decode("ascii").strip()
    except UnicodeDecodeError as error:
        raise Failed(Reason.SERVICE_UNREACHABLE, f"the token cannot be read: {path}: {error}") from error
