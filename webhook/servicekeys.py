"""The key `allocationService`: it switches the service on and says how sidecars reach it.

A sidecar trusts the authorities of the server's certificate alone: those in a file that is named here, or else those
that the server knows of itself (`webhook.authorities`).
"""

import ssl
from dataclasses import replace
from pathlib import Path
from typing import TypedDict
from urllib.parse import urlsplit

from dra.contract import TOKEN_PATH
from dra.errors import Failed, Refused
from dra.fields import Fields
from dra.intent import ServiceAddress
from dra.names import is_dns_subdomain
from dra.reasons import Reason
from webhook.config import Config, Installation

KEYS = ("url", "serverName", "caFile")
MAX_AUTHORITY = 32 * 1024
"""Characters: it goes into a variable of each sidecar, which Linux limits to 128 KiB. Two authorities have 3,000."""
_WRONG = Reason.INVALID_CONFIGURATION


class ServiceSettings(TypedDict):
    """What of a `Config` this key sets."""

    allocation_service: ServiceAddress | None
    ca_file: Path | None


def read_service(config: Fields, warnings: list[str], installation: Installation) -> ServiceSettings:
    """Return the service's settings, both None where the key is absent. Raises Refused."""
    if config.raw.get("allocationService") is None:
        return {"allocation_service": None, "ca_file": None}
    fields = config.mapping("allocationService")
    warnings += fields.unknown(KEYS)
    texts = {key: fields.optional_text(key) for key in KEYS}
    for key, text in texts.items():
        if text == "":  # it comes from a template whose value was forgotten
            raise fields.refuse(key, "must not be empty: give a value, or leave it out")
    server_name = texts["serverName"] or installation.service_host
    if not is_dns_subdomain(server_name):
        raise fields.refuse("serverName", f"must be a DNS name in the certificate, got {server_name[:80]!a}")
    url = texts["url"] or f"https://{installation.service_host}:443"
    if not _is_origin(url):
        raise fields.refuse("url", f"must be https://host[:port], got {url[:80]!a}")
    address = ServiceAddress(url.rstrip("/"), ca="", server_name=server_name, token_path=TOKEN_PATH)
    if texts["caFile"] is None and not installation.knows_authorities:
        message = (
            "must name the authorities of the webhook's certificate, since the webhook does not know them:"
            " it does with --tls-self-managed or with --tls-ca"
        )
        raise fields.refuse("caFile", message)
    return {"allocation_service": address, "ca_file": Path(texts["caFile"]) if texts["caFile"] else None}


def with_authority(config: Config) -> Config:
    """Return the configuration with the authority in its `ca_file`, or as it is where there is none.

    Raises Failed where the file cannot be read, Refused where it holds no certificate, or a key.
    """
    if config.ca_file is None or config.allocation_service is None:
        return config
    try:
        pem = config.ca_file.read_text(encoding="ascii")
        ssl.create_default_context(cadata=pem)
    except (OSError, UnicodeDecodeError) as error:  # ssl.SSLError is an OSError
        why = error.strerror if isinstance(error, OSError) else error
        raise Failed(Reason.UNREADABLE, f"allocationService.caFile: {config.ca_file}: {why}") from error
    if not pem.strip() or len(pem) > MAX_AUTHORITY:
        message = f"must hold certificates of 1 to {MAX_AUTHORITY} characters in all, got {len(pem)}"
        raise Refused(_WRONG, message, path=f"allocationService.caFile: {config.ca_file}")
    if "PRIVATE KEY-----" in pem:
        message = "must hold certificates alone, since every sidecar is given it: it holds a private key"
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
