"""The key `allocationService`: it switches the service on and says how sidecars reach it.

One value is needed, the file of the authority that signs the webhook's certificate: a sidecar trusts that one alone.
"""

import os
import ssl
from dataclasses import replace
from pathlib import Path
from typing import TypedDict
from urllib.parse import urlsplit

from dra.contract import DEFAULT_NAMESPACE, SERVICE_NAME, TOKEN_PATH
from dra.errors import Failed, Refused
from dra.fields import Fields
from dra.intent import ServiceAddress
from dra.names import is_dns_subdomain
from dra.reasons import Reason
from webhook.config import Config

KEYS = ("url", "serverName", "caFile")
MAX_AUTHORITY = 32 * 1024
"""Characters: it goes into a variable of each sidecar, which Linux limits to 128 KiB. Two authorities have 3,000."""
_WRONG = Reason.INVALID_CONFIGURATION


class ServiceSettings(TypedDict):
    """What of a `Config` this key sets."""

    allocation_service: ServiceAddress | None
    ca_file: Path | None


def read_service(config: Fields, warnings: list[str]) -> ServiceSettings:
    """Return the service's settings, both None where the key is absent. Raises Refused."""
    if config.raw.get("allocationService") is None:
        return {"allocation_service": None, "ca_file": None}
    fields = config.mapping("allocationService")
    warnings += fields.unknown(KEYS)
    host = f"{SERVICE_NAME}.{own_namespace()}.svc"
    server_name = fields.optional_text("serverName") or host
    if not is_dns_subdomain(server_name):
        raise fields.refuse("serverName", f"must be a DNS name in the certificate, got {server_name[:80]!a}")
    url = fields.optional_text("url") or f"https://{host}:443"
    if not _is_origin(url):
        raise fields.refuse("url", f"must be https://host[:port], got {url[:80]!a}")
    address = ServiceAddress(url.rstrip("/"), ca="", server_name=server_name, token_path=TOKEN_PATH)
    return {"allocation_service": address, "ca_file": Path(fields.text("caFile"))}


def own_namespace() -> str:
    """Return the namespace that dravirt runs in: POD_NAMESPACE, which the manifests set from the downward API."""
    return os.environ.get("POD_NAMESPACE") or DEFAULT_NAMESPACE


def with_authority(config: Config) -> Config:
    """Return the configuration with the authority in its `ca_file`, or as it is where there is none.

    Raises Failed where the file cannot be read, Refused where it holds no certificate.
    """
    if config.ca_file is None or config.allocation_service is None:
        return config
    try:
        pem = config.ca_file.read_text(encoding="ascii")
        ssl.create_default_context(cadata=pem)
    except (OSError, UnicodeDecodeError) as error:  # ssl.SSLError is an OSError
        raise Failed(Reason.UNREADABLE, f"allocationService.caFile: {config.ca_file}: {error}") from error
    if not pem.strip() or len(pem) > MAX_AUTHORITY:
        message = f"must hold certificates of 1 to {MAX_AUTHORITY} characters in all, got {len(pem)}"
        raise Refused(_WRONG, message, path=f"allocationService.caFile: {config.ca_file}")
    return replace(config, allocation_service=replace(config.allocation_service, ca=pem))


def _is_origin(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    rest = (parts.username, parts.query, parts.fragment, parts.path.strip("/"))
    return parts.scheme == "https" and bool(parts.hostname) and not any(rest)
