"""Keys and certificates: made for a Service, read from PEM, and checked as the API server checks them."""

import datetime as dt
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from uuid import uuid4

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Certificate = x509.Certificate
SigningKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

SKEW = dt.timedelta(minutes=5)
"""How far into the past a certificate begins: the clocks of a cluster differ."""
MAX_PEM = 256 * 1024
"""Bytes of a PEM text: a certificate has about 1,000."""
_PEM = serialization.Encoding.PEM
_KEY_USAGES = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only")
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key."""

    certificate: Certificate
    key: SigningKey


def new_authority(now: dt.datetime, life: dt.timedelta) -> Pair:
    """Return a new authority with a P-256 key that signs until `now + life`.

    Each has a name of its own: OpenSSL looks for an issuer by name first, and a rotation has two at a time.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"dravirt webhook authority {uuid4().hex}")
    certificate = (
        _builder(name, name, key, now=now, end=now + life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(certificate, key)


def issue(authority: Pair, names: Iterable[str], now: dt.datetime, life: dt.timedelta) -> Pair:
    """Return a server's certificate for `names` (DNS names or addresses) that never outlives its authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    end = min(now + life, authority.certificate.not_valid_after_utc)
    alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
    builder = _builder(_name("dravirt webhook"), authority.certificate.subject, key, now=now, end=end)
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    certificate = (
        builder.add_extension(alternatives, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(issuer_key, critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    return Pair(certificate, key)


def service_names(service: str, namespace: str, cluster_domain: str = "") -> tuple[str, ...]:
    """Return the names of a Service, first the one by which an API server asks for its certificate.

    Source: k8s.io/apiserver/pkg/util/webhook, ClientManager.HookClient: ServerName is `<service>.<namespace>.svc`.
    """
    names = (f"{service}.{namespace}.svc", f"{service}.{namespace}", service)
    return (*names, f"{names[0]}.{cluster_domain}") if cluster_domain else names


def read_certificates(pem: bytes) -> tuple[Certificate, ...]:
    """Return the certificates of a PEM text, in its order. Raises ValueError where one cannot be read."""
    if len(pem) > MAX_PEM:
        raise ValueError(f"is larger than {MAX_PEM} bytes")
    return tuple(x509.load_pem_x509_certificate(block) for block in _CERTIFICATE.findall(pem))


def read_key(pem: bytes) -> PrivateKeyTypes:
    """Return the private key of a PEM text. Raises ValueError where there is none that can be read."""
    if len(pem) > MAX_PEM:
        raise ValueError(f"is larger than {MAX_PEM} bytes")
    try:
        return serialization.load_pem_private_key(pem, password=None)
    except (TypeError, UnsupportedAlgorithm) as error:
        raise ValueError("is encrypted, or of a kind that is not known") from error


def write_certificates(certificates: Iterable[Certificate]) -> bytes:
    """Return the PEM text of certificates."""
    return b"".join(certificate.public_bytes(_PEM) for certificate in certificates)


def write_key(key: PrivateKeyTypes) -> bytes:
    """Return the PEM text of a private key."""
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def issued_at(certificate: Certificate) -> dt.datetime:
    """Return when a certificate of ours was made."""
    return certificate.not_valid_before_utc + SKEW


def renewal_at(certificate: Certificate) -> dt.datetime:
    """Return when a third of a certificate's life is left."""
    life = certificate.not_valid_after_utc - issued_at(certificate)
    return certificate.not_valid_after_utc - life / 3


def is_valid(certificate: Certificate, now: dt.datetime) -> bool:
    """True where `now` is between the certificate's dates."""
    return certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc


def is_authority(certificate: Certificate) -> bool:
    """True where the certificate may sign others."""
    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except (x509.ExtensionNotFound, ValueError):
        return False
    return constraints.value.ca


def is_for_servers(certificate: Certificate) -> bool:
    """True where the certificate may stand for a server."""
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    except ValueError:
        return False
    return ExtendedKeyUsageOID.SERVER_AUTH in usage or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in usage


def names_of(certificate: Certificate) -> tuple[str, ...]:
    """Return the DNS names and addresses that the certificate stands for. Its common name counts for nothing."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ()
    return (*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress)))


def signed_by(certificate: Certificate, authority: Certificate) -> bool:
    """True where `authority` may sign and has signed `certificate`."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return is_authority(authority)


def leads_to(chain: Iterable[Certificate], trusted: Collection[Certificate], now: dt.datetime) -> bool:
    """True where a server's chain, its own certificate first, ends at a trusted authority; all valid `now`."""
    before: Certificate | None = None
    for link in chain:
        if not is_valid(link, now) or (before and not signed_by(before, link)):
            return False
        if any(is_valid(authority, now) and signed_by(link, authority) for authority in trusted):
            return True
        before = link
    return False


def fits(certificate: Certificate, key: PrivateKeyTypes) -> bool:
    """True where the key is the certificate's."""
    try:
        return certificate.public_key() == key.public_key()
    except (ValueError, UnsupportedAlgorithm):
        return False


def fingerprint(certificate: Certificate) -> str:
    """Return the first 16 hex digits of the certificate's SHA-256, to tell it from others."""
    return certificate.fingerprint(hashes.SHA256()).hex()[:16]


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(**wanted: bool) -> x509.KeyUsage:
    names = (*_KEY_USAGES, "decipher_only", "digital_signature", "key_cert_sign", "crl_sign")
    return x509.KeyUsage(**dict.fromkeys(names, False) | wanted)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: SigningKey, *, now: dt.datetime, end: dt.datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key.public_key())
    return builder.serial_number(x509.random_serial_number()).not_valid_before(now - SKEW).not_valid_after(end)
