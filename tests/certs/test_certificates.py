"""Keys and certificates, judged by libraries that are not ours."""

import datetime as dt

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID
from support.authorities import NAMES, NOW, client_trusts, days, seconds

from certs.certificates import (
    MAX_PEM,
    Pair,
    fits,
    is_authority,
    is_for_servers,
    issue,
    issued_at,
    leads_to,
    names_of,
    new_authority,
    read_certificates,
    read_key,
    renewal_at,
    service_names,
    signed_by,
    write_certificates,
    write_key,
)

YEAR = days(365)


@pytest.fixture(scope="module")
def authority():
    return new_authority(NOW, YEAR)


@pytest.fixture(scope="module")
def leaf(authority):
    return issue(authority, NAMES, NOW, days(30))


def test_tl15_the_certificate_has_the_names_of_its_service(leaf):
    names = leaf.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert set(names.get_values_for_type(x509.DNSName)) == {
        "dravirt-webhook",
        "dravirt-webhook.dravirt-system",
        "dravirt-webhook.dravirt-system.svc",
    }


def test_tl15_the_name_in_the_cluster_s_domain_is_there_where_it_is_set():
    names = service_names("hook", "gpu", "cluster.local")
    assert names[0] == "hook.gpu.svc"
    assert set(names) == {"hook", "hook.gpu", "hook.gpu.svc", "hook.gpu.svc.cluster.local"}


@pytest.mark.parametrize("name", NAMES)
def test_tl15_a_strict_client_takes_it_for_each_name(authority, leaf, name):
    assert client_trusts(leaf.certificate, [authority.certificate], NOW, name)


def test_tl15_it_is_for_servers_only(leaf):
    usage = leaf.certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert not is_authority(leaf.certificate)


def test_keys_are_p256(authority, leaf):
    assert {pair.key.curve.name for pair in (authority, leaf)} == {"secp256r1"}


def test_it_is_valid_five_minutes_before_it_was_made(authority, leaf):
    assert client_trusts(leaf.certificate, [authority.certificate], NOW - dt.timedelta(minutes=5))
    assert not client_trusts(leaf.certificate, [authority.certificate], NOW - dt.timedelta(minutes=5, seconds=1))
    assert issued_at(leaf.certificate) == NOW


@pytest.mark.parametrize(
    ("life", "rest", "expected"),
    [(30, 365, 30), (30, 30, 30), (30, 10, 10), (400, 365, 365)],
    ids=["shorter", "as long", "the authority ends first", "longer than any authority"],
)
def test_tl07_it_never_outlives_its_authority(life, rest, expected):
    authority = new_authority(NOW, days(rest))
    certificate = issue(authority, NAMES, NOW, days(life)).certificate
    assert certificate.not_valid_after_utc == NOW + days(expected)


def test_renewal_is_due_when_a_third_of_the_life_is_left(leaf):
    assert renewal_at(leaf.certificate) == NOW + days(20)


def test_two_authorities_have_two_names(authority):
    assert new_authority(NOW, YEAR).certificate.subject != authority.certificate.subject


def test_an_authority_signs_servers_and_no_further_authorities(authority):
    constraints = authority.certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)


def test_addresses_may_be_named(authority):
    certificate = issue(authority, ["localhost", "127.0.0.1", "::1"], NOW, days(1)).certificate
    assert names_of(certificate) == ("localhost", "127.0.0.1", "::1")


def test_pem_gives_back_what_was_written(authority, leaf):
    pem = b"# a remark\n" + write_certificates([leaf.certificate, authority.certificate])
    assert read_certificates(pem) == (leaf.certificate, authority.certificate)
    assert fits(leaf.certificate, read_key(write_key(leaf.key)))


@pytest.mark.parametrize(
    "pem",
    [
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
        b"x" * (MAX_PEM + 1),
    ],
    ids=["no certificate", "no base64", "endless"],
)
def test_certificates_that_cannot_be_read_are_told(pem):
    with pytest.raises(ValueError):
        read_certificates(pem)


def _encrypted():
    encryption = serialization.BestAvailableEncryption(b"secret")
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


@pytest.mark.parametrize(
    "pem", [b"", b"x", _encrypted(), b"x" * (MAX_PEM + 1)], ids=["empty", "noise", "encrypted", "endless"]
)
def test_keys_that_cannot_be_read_are_told(pem):
    with pytest.raises(ValueError):
        read_key(pem)


def test_a_key_of_another_certificate_does_not_fit(authority, leaf):
    assert not fits(leaf.certificate, authority.key)
    assert not fits(leaf.certificate, ed25519.Ed25519PrivateKey.generate())


def test_a_signature_of_another_authority_does_not_count(leaf):
    assert not signed_by(leaf.certificate, new_authority(NOW, YEAR).certificate)


def test_an_authority_with_the_name_of_another_does_not_count(authority, leaf):
    key = ec.generate_private_key(ec.SECP256R1())
    forged = _authority(authority.certificate.subject, authority.certificate.subject, key, key)
    assert not signed_by(leaf.certificate, forged)


def test_a_server_s_certificate_signs_nothing(authority, leaf):
    below = issue(Pair(leaf.certificate, leaf.key), NAMES, NOW, days(1)).certificate
    assert not signed_by(below, leaf.certificate)
    assert not leads_to((below, leaf.certificate), [authority.certificate], NOW)


def _authority(subject, issuer, key, signing):
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(NOW).not_valid_after(NOW + YEAR)
    return builder.add_extension(x509.BasicConstraints(True, None), critical=True).sign(signing, hashes.SHA256())


def test_a_chain_by_an_authority_in_between_is_followed():
    # as of cert-manager with a company's authority: RSA, and the intermediate in tls.crt
    name, between = (x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, each)]) for each in ("root", "between"))
    root_key, key = (rsa.generate_private_key(65537, 2048) for _ in range(2))
    root, intermediate = _authority(name, name, root_key, root_key), _authority(between, name, key, root_key)
    leaf = issue(Pair(intermediate, key), NAMES, NOW, days(1)).certificate

    assert leads_to((leaf, intermediate), [root], NOW)
    assert leads_to((leaf,), [intermediate], NOW)
    assert not leads_to((leaf,), [root], NOW)
    assert not leads_to((leaf, root), [root], NOW)
    assert not leads_to((leaf, intermediate), [root], NOW - seconds(1))


@pytest.mark.parametrize("moment", [NOW + days(30) + seconds(1), NOW - days(1)], ids=["expired", "not valid yet"])
def test_a_chain_outside_its_dates_leads_nowhere(authority, leaf, moment):
    assert leads_to((leaf.certificate,), [authority.certificate], NOW)
    assert not leads_to((leaf.certificate,), [authority.certificate], moment)


def test_an_expired_authority_is_trusted_no_more():
    authority = new_authority(NOW, days(1))
    leaf = issue(authority, NAMES, NOW, days(1)).certificate
    assert not leads_to((leaf,), [authority.certificate], NOW + days(1) + seconds(1))


def test_extensions_that_are_absent_say_nothing():
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([])
    bare = x509.CertificateBuilder(name, name, key.public_key(), 1).not_valid_before(NOW).not_valid_after(NOW + YEAR)
    certificate = bare.sign(key, hashes.SHA256())
    assert (is_authority(certificate), is_for_servers(certificate), names_of(certificate)) == (False, True, ())
