"""Certificates in files that others keep."""

import pytest
from support.authorities import NAMES, NOW, days, seconds

from certs.certificates import issue, new_authority, write_certificates, write_key
from certs.files import Files
from dra.errors import Failed


class Folder:
    """tls.crt, tls.key and ca.crt of one authority."""

    def __init__(self, path):
        self.path = path
        self.authority = new_authority(NOW, days(100))
        self.leaf = issue(self.authority, NAMES, NOW, days(30))
        self.now = NOW
        self.write("tls.crt", write_certificates([self.leaf.certificate]))
        self.write("tls.key", write_key(self.leaf.key))
        self.write("ca.crt", write_certificates([self.authority.certificate]))

    def write(self, name, content):
        (self.path / name).write_bytes(content)

    def source(self, *, authority=True):
        names = [self.path / name for name in ("tls.crt", "tls.key", "ca.crt")]
        return Files(*names[: 3 if authority else 2], clock=lambda: self.now)


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def test_the_files_are_offered_with_their_dates(folder):
    offer = folder.source().read()
    assert offer.chain == (folder.path / "tls.crt").read_bytes()
    assert offer.key == (folder.path / "tls.key").read_bytes()
    assert offer.ends == {"server": NOW + days(30), "ca": NOW + days(100)}
    assert folder.source(authority=False).read().ends == {"server": NOW + days(30)}


def test_a_key_is_not_shown_by_accident(folder):
    assert "PRIVATE KEY" not in repr(folder.source().read())


def test_of_the_authoritys_file_its_certificates_alone_are_handed_on(folder):
    certificates = write_certificates([folder.authority.certificate])
    folder.write("ca.crt", "# für uns\n".encode() + certificates + write_key(folder.authority.key))
    assert folder.source().read().authorities == certificates
    assert folder.source(authority=False).read().authorities == b""


FAULTS = {
    "another key": (lambda it: it.write("tls.key", write_key(new_authority(NOW, days(1)).key)), "the key is not the"),
    "half a key": (lambda it: it.write("tls.key", write_key(it.leaf.key)[:80]), "tls.key"),
    "no key": (lambda it: it.write("tls.key", b""), "tls.key"),
    "half a certificate": (
        lambda it: it.write("tls.crt", b"-----BEGIN CERTIFICATE-----\nM"),
        "no certificate in PEM",
    ),
    "no certificate": (lambda it: it.write("tls.crt", b""), "there is no certificate in PEM"),
    "another authority": (
        lambda it: it.write("ca.crt", write_certificates([new_authority(NOW, days(1)).certificate])),
        "does not lead to an authority",
    ),
    "no authority": (lambda it: it.write("ca.crt", b""), "does not lead to an authority"),
    "expired": (lambda it: setattr(it, "now", NOW + days(31)), "valid from 2026-11-30 11:55 to 2026-12-30 12:00 UTC"),
    "not valid yet": (lambda it: setattr(it, "now", NOW - days(1)), "which is not now"),
    "a file is missing": (lambda it: (it.path / "ca.crt").unlink(), "ca.crt: No such file"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_tl17_what_does_not_fit_together_is_told(folder, fault):
    break_it, message = FAULTS[fault]
    break_it(folder)
    with pytest.raises(Failed, match=message):
        folder.source().read()


def test_a_clock_that_is_a_little_behind_does_no_harm(folder):
    folder.now = NOW - seconds(599)
    assert folder.source().read().chain


def test_tl15_a_certificate_without_names_is_pointed_out(folder):
    bare = issue(folder.authority, [], NOW, days(30))
    folder.write("tls.crt", write_certificates([bare.certificate]))
    folder.write("tls.key", write_key(bare.key))
    assert "no subject alternative name" in folder.source().read().detail
