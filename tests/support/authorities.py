"""Instants and certificates for the tests of certs/: a policy of seconds, and an independent judge of chains."""

import datetime as dt
from collections.abc import Iterable

from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from certs.certificates import Pair, issue, new_authority, service_names
from certs.material import Material
from certs.policy import Policy

NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
NAMES = service_names("dravirt-webhook", "dravirt-system")


def seconds(number: float) -> dt.timedelta:
    return dt.timedelta(seconds=number)


def days(number: float) -> dt.timedelta:
    return dt.timedelta(days=number)


QUICK = Policy(
    authority_life=seconds(60), leaf_life=seconds(24), overlap=seconds(10), propagation=seconds(4), interval=seconds(1)
)
"""A whole rotation in a minute."""


def material(
    now: dt.datetime = NOW, policy: Policy | None = None, *, authority: Pair | None = None, names: Iterable[str] = NAMES
) -> Material:
    """Return what a Secret holds after its first filling at `now`."""
    policy = policy or Policy()
    pair = authority or new_authority(now, policy.authority_life)
    leaf = issue(pair, names, now, policy.leaf_life)
    return Material((pair.certificate,), pair.key, (leaf.certificate,), leaf.key)


def client_trusts(
    leaf: x509.Certificate, authorities: Iterable[x509.Certificate], now: dt.datetime, name: str = NAMES[0]
) -> bool:
    """True where a strict client (cryptography's own path building, Web PKI rules) takes the certificate for `name`."""
    trusted = list(authorities)
    if not trusted:
        return False
    verifier = PolicyBuilder().store(Store(trusted)).time(now).build_server_verifier(x509.DNSName(name))
    try:
        verifier.verify(leaf, [])
    except VerificationError:
        return False
    return True
