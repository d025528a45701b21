"""What a rotation looks like from outside: the Secret, step by step, and what each replica serves."""

import base64
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from cluster.api import Object
from cluster.process import until

from certs.certificates import fingerprint, read_certificates
from certs.material import read_material
from install.installation import REPLICAS, Installation

SHORT = ("--ca-lifetime=81s", "--cert-lifetime=54s", "--overlap=12s", "--propagation=6s", "--interval=1s")
"""A new authority every 54 s; 6 s later a certificate of it, and 12 s after that it is the only one."""
QUICK = ("--propagation=4s", "--interval=1s")
"""Lifetimes as they are, and short waits."""
ROTATION = ("authority", "certificate", "dropped")
"""The steps of a whole rotation."""
PORT = 8443


@dataclass(frozen=True, slots=True)
class Look:
    """What the Secret holds, by fingerprints: the authority that signs, the certificate, the authorities to trust."""

    authority: str = ""
    leaf: str = ""
    bundle: tuple[str, ...] = ()

    def step_from(self, before: "Look") -> str:
        """Return what has happened since `before`."""
        if self.authority != before.authority:
            return "authority"
        if self.leaf != before.leaf:
            return "certificate"
        return "dropped" if len(self.bundle) < len(before.bundle) else "other"


def look(installation: Installation) -> Look:
    """Return what the Secret holds now."""
    data = {name: base64.b64decode(value) for name, value in installation.secret().items()}
    material, _ = read_material(data)
    authority = fingerprint(material.authority.certificate) if material.authority else ""
    leaf = fingerprint(material.leaf) if material.leaf else ""
    return Look(authority, leaf, tuple(map(fingerprint, material.bundle)))


def through(installation: Installation, before: Look, wanted: Iterable[str]) -> Iterator[str]:
    """Give each of the steps `wanted`, in their order, as it happens after `before`; others may come between them."""
    for step in wanted:
        found = ""
        while found != step:
            after = changed(lambda: look(installation), before, seconds=120)
            found, before = after.step_from(before), after
        yield step


def changed(probe: Callable[[], Look], before: Look, *, seconds: float) -> Look:
    """Return the first look that is another than `before`."""

    def other() -> Look | None:
        found = probe()
        return found if found != before and found.leaf else None

    return until(other, seconds=seconds, what=f"a change of the Secret since {before}")


def served(pod: Object) -> str:
    """Return the fingerprint of the certificate that a replica serves."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((pod["status"]["podIP"], PORT), timeout=5) as connection,
        context.wrap_socket(connection) as tls,
    ):
        certificate = tls.getpeercert(binary_form=True)
    assert certificate
    (found,) = read_certificates(ssl.DER_cert_to_PEM_cert(certificate).encode())
    return fingerprint(found)


def settled(installation: Installation) -> None:
    """Wait until every replica serves the certificate of the Secret and every webhook trusts its authority."""

    def is_settled() -> bool:
        there, bundle, pods = look(installation), installation.secret().get("ca.crt"), installation.pods()
        try:
            leaves = {served(pod) for pod in pods}
        except (KeyError, OSError):  # it has no address yet, or does not serve TLS yet
            return False
        return len(pods) == REPLICAS and leaves == {there.leaf} and set(installation.bundles()) == {bundle}

    until(is_settled, seconds=90, what="every replica serving the certificate of the Secret")
