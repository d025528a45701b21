"""A throw-away certificate authority for servers on loopback: made for one run, never for a cluster."""

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

from certs import certificates

_LIFE = dt.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Certificate:
    """The files of a server's certificate and of the authority that signed it."""

    certificate: Path
    key: Path
    authority: Path


def issue(folder: Path) -> Certificate:
    """Write a new authority and a certificate for 127.0.0.1 and localhost into `folder`."""
    now = dt.datetime.now(dt.UTC)
    authority = certificates.new_authority(now, _LIFE)
    server = certificates.issue(authority, ["localhost", "127.0.0.1"], now, _LIFE)
    files = Certificate(folder / "tls.crt", folder / "tls.key", folder / "ca.crt")
    files.authority.write_bytes(certificates.write_certificates([authority.certificate]))
    files.certificate.write_bytes(certificates.write_certificates([server.certificate]))
    files.key.touch(mode=0o600)
    files.key.write_bytes(certificates.write_key(server.key))
    return files
