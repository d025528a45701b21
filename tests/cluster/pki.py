"""Certificates for the cluster's servers, all from one throw-away authority."""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LIFE = dt.timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority whose files are in one folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "cluster")])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        builder = self._builder(self._name, self._key.public_key()).add_extension(constraints, critical=True)
        self.pair = self._write("ca", builder.sign(self._key, hashes.SHA256()), self._key)

    @property
    def pem(self) -> str:
        """The certificate of the authority."""
        return self.pair.certificate.read_text()

    def issue(self, name: str, *hosts: str) -> Pair:
        """Return a certificate for `hosts`, good for server and client alike; `name` names it and its files."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(subject, key.public_key())
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_san(host) for host in hosts]), critical=False)
        return self._write(name, builder.sign(self._key, hashes.SHA256()), key)

    def signing_key(self, name: str) -> Path:
        """Return the file of a new key that signs tokens."""
        return self._write_key(name, ec.generate_private_key(ec.SECP256R1()))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(minutes=5))
            .not_valid_after(now + LIFE)
        )

    def _write(self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
        path = self._folder / f"{name}.crt"
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return Pair(path, self._write_key(name, key))

    def _write_key(self, name: str, key: ec.EllipticCurvePrivateKey) -> Path:
        path = self._folder / f"{name}.key"
        # kube-apiserver does not read an elliptic key for tokens in PKCS 8.
        pem = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        path.write_bytes(key.private_bytes(*pem))
        return path


def _san(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
