"""Certificates in files that someone else keeps: cert-manager, OpenShift's service CA, or a person.

Files are read whole each time and not watched: the kubelet swaps a symlink (`..data`) above them, editors rename, and
NFS tells nobody.
"""

import datetime as dt
from collections.abc import Callable
from pathlib import Path

from certs.certificates import SKEW, fits, leads_to, names_of, read_certificates, read_key, write_certificates
from certs.source import Offer
from dra.errors import DravirtError, Failed
from dra.reasons import Reason


class Files:
    """A certificate chain, its key, and the authority that it must lead to where one is named; all PEM."""

    def __init__(
        self,
        certificate: Path,
        key: Path,
        authority: Path | None = None,
        clock: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
    ) -> None:
        self._certificate, self._key, self._authority = certificate, key, authority
        self._clock = clock

    def read(self) -> Offer:
        """Return what the files hold. Raises Failed where they cannot be read or do not fit together."""
        chain, key = _read(self._certificate), _read(self._key)
        bundle = None if self._authority is None else _read(self._authority)
        try:
            return _offer(chain, key, bundle, self._clock())
        except ValueError as error:
            raise self._failed(str(error)) from error

    def _failed(self, why: str) -> DravirtError:
        names = f"certificate {self._certificate} with key {self._key}"
        if self._authority:
            names += f" and authority {self._authority}"
        return Failed(Reason.INVALID_CERTIFICATE, f"{names}: {why}")


def _offer(chain: bytes, key: bytes, bundle: bytes | None, now: dt.datetime) -> Offer:
    """Return the offer of what was read. Raises ValueError where it is of no use."""
    certificates = read_certificates(chain)
    if not certificates:
        raise ValueError("there is no certificate in PEM")
    leaf = certificates[0]
    if not fits(leaf, read_key(key)):
        raise ValueError("the key is not the certificate's")
    if not leaf.not_valid_before_utc - SKEW <= now <= leaf.not_valid_after_utc:
        dates = f"{leaf.not_valid_before_utc:%Y-%m-%d %H:%M} to {leaf.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
        raise ValueError(f"it is valid from {dates}, which is not now")
    ends = {"server": leaf.not_valid_after_utc}
    authorities = read_certificates(bundle or b"")
    if bundle is not None:
        if not leads_to(certificates, authorities, max(now, leaf.not_valid_before_utc)):
            raise ValueError("the certificate does not lead to an authority that is valid")
        ends["ca"] = max(each.not_valid_after_utc for each in authorities)
    # Go takes no name from the subject: https://go.dev/doc/go1.15#commonname
    detail = "" if names_of(leaf) else "the certificate has no subject alternative name: no API server takes it"
    # Written anew: sidecars are given them, so never what else is in the file, such as a key.
    return Offer(chain, key, ends, detail=detail, authorities=write_certificates(authorities))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Failed(Reason.UNREADABLE, f"{path}: {error.strerror}") from error
