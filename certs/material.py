"""What the Secret holds: the authorities to trust, the key of the one that signs, a certificate and its key.

Whatever of it cannot be read counts as missing: rotation makes it anew.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from certs.certificates import (
    Certificate,
    Pair,
    fits,
    is_authority,
    is_for_servers,
    is_valid,
    leads_to,
    names_of,
    read_certificates,
    read_key,
    signed_by,
    write_certificates,
    write_key,
)

T = TypeVar("T")

BUNDLE, AUTHORITY_KEY, CHAIN, KEY = "ca.crt", "ca.key", "tls.crt", "tls.key"
"""The keys of the Secret; those of a Secret of type kubernetes.io/tls, and the authority's."""


@dataclass(frozen=True, slots=True)
class Material:
    """The content of the Secret, as far as it can be read."""

    bundle: tuple[Certificate, ...] = ()
    """The authorities to trust, the newest first."""
    authority_key: PrivateKeyTypes | None = None
    chain: tuple[Certificate, ...] = ()
    key: PrivateKeyTypes | None = None

    @property
    def authority(self) -> Pair | None:
        """The authority that signs: the one in the bundle whose key is here."""
        key = self.authority_key
        if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
            return None
        return next((Pair(each, key) for each in self.bundle if fits(each, key) and is_authority(each)), None)

    @property
    def leaf(self) -> Certificate | None:
        """The server's certificate."""
        return self.chain[0] if self.chain else None

    @property
    def issuer(self) -> Certificate | None:
        """The authority in the bundle that signed the server's certificate."""
        return None if self.leaf is None else next((each for each in self.bundle if signed_by(self.leaf, each)), None)

    def fault(self, name: str, now: dt.datetime) -> str:
        """Return why a client that trusts the bundle would not take the certificate for `name`, "" where it would."""
        leaf = self.leaf
        if leaf is None or self.key is None:
            return "there is none"
        if not fits(leaf, self.key):
            return "its key is another's"
        if not is_valid(leaf, now):
            return "it has expired" if leaf.not_valid_after_utc < now else "it is not valid yet"
        if not is_for_servers(leaf):
            return "it is not for servers"
        if name not in names_of(leaf):
            return f"it is not for {name}"
        return "" if leads_to(self.chain, self.bundle, now) else "no authority of the bundle that is valid signed it"


def read_material(data: Mapping[str, bytes]) -> tuple[Material, tuple[str, ...]]:
    """Return what can be read of the Secret's data, and a sentence for each key that cannot."""
    faults: list[str] = []

    def part(name: str, read: Callable[[bytes], T], missing: T) -> T:
        pem = data.get(name, b"")
        try:
            return read(pem) if pem.strip() else missing
        except ValueError as error:
            faults.append(f"{name}: {error}")
            return missing

    material = Material(
        part(BUNDLE, read_certificates, ()),
        part(AUTHORITY_KEY, read_key, None),
        part(CHAIN, read_certificates, ()),
        part(KEY, read_key, None),
    )
    return material, tuple(faults)


def write_material(material: Material) -> dict[str, bytes]:
    """Return the Secret's data."""
    return {
        BUNDLE: write_certificates(material.bundle),
        AUTHORITY_KEY: _key(material.authority_key),
        CHAIN: write_certificates(material.chain),
        KEY: _key(material.key),
    }


def without_doubles(certificates: Iterable[Certificate]) -> tuple[Certificate, ...]:
    """Return each certificate once, in the order in which they come first."""
    return tuple(dict.fromkeys(certificates))


def _key(key: PrivateKeyTypes | None) -> bytes:
    return b"" if key is None else write_key(key)
