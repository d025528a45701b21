"""The webhook's certificate, and whether the caBundle of each webhook leads to it.

Judged from the Secret where it can be read, else by a TLS handshake with the server, as API servers make it.
"""

import base64
import binascii
import datetime as dt
from collections.abc import Iterator, Mapping, Sequence

from certs.cabundle import authorities, bundles, mend
from certs.certificates import is_valid, leads_to, names_of
from certs.material import AUTHORITY_KEY, BUNDLE, CHAIN, read_material
from cli.doctor import remedies
from cli.doctor.codes import Code
from cli.doctor.facts import Objects, Place, RawObject, Trust
from cli.doctor.finding import Finding
from cli.doctor.registration import entries
from webhook.raw import mapping

_NOT_LED_TO = "no authority in it signed the certificate"


def trust_by_secret(secret: RawObject, registrations: Objects, name: str, now: dt.datetime) -> Trust:
    """Return how the certificate in the Secret stands with a caller of `name`."""
    material, _ = read_material(_data(secret))
    leaf = material.leaf
    if leaf is None:
        return Trust(f"there is none under {CHAIN}", {}, secret)
    if not is_valid(leaf, now):
        return Trust(f"it is valid from {leaf.not_valid_before_utc} to {leaf.not_valid_after_utc}", {}, secret)
    if name not in names_of(leaf):
        return Trust(f"it is for {', '.join(names_of(leaf)) or 'nobody'}, not for {name}", {}, secret)
    distrust = {
        entry: _NOT_LED_TO if bundle else "it is empty"
        for item in registrations
        for entry, bundle in bundles(item).items()
        if not leads_to(material.chain, authorities(bundle), now)
    }
    return Trust("", distrust, secret)


def trust_by_handshakes(failures: Mapping[bytes, str], registrations: Objects) -> Trust:
    """Return how the server stands with callers, of whom each caBundle's failed or not ("")."""
    found = (each for item in registrations for each in bundles(item).items())
    return Trust("", {entry: why for entry, bundle in found if (why := failures[bundle])})


def check_trust(trust: Trust, registrations: Objects, place: Place) -> Iterator[Finding]:
    """Find a certificate that API servers would not take."""
    if trust.fault:
        subject = f"Secret {place.namespace}/{_name(trust.secret)}"
        yield Finding(Code.CERTIFICATE, subject, f"the certificate: {trust.fault}", _renewal(trust, place))
    for each in entries(registrations):
        if why := trust.distrust.get(each.name):
            remedy = _mending(trust, [item for item in registrations if item.get("kind") == each.kind])
            yield Finding(Code.CA_BUNDLE, each.subject, f"its caBundle: {why}", remedy or _kept_by_dravirt(place))


def _mending(trust: Trust, registrations: Sequence[RawObject]) -> str:
    """Return the command that puts the Secret's authorities into each caBundle, "" where it holds none."""
    bundle = _data(trust.secret).get(BUNDLE) if trust.secret else None
    if not bundle:
        return ""
    # Without the version: the command is pasted later, and its tests are by name.
    commands = []
    for item in registrations:
        operations = [each for each in mend(item, bundle) if each["path"] != "/metadata/resourceVersion"]
        if operations:
            name = str(mapping(item, "metadata").get("name"))
            commands.append(remedies.patch(str(item["kind"]).lower(), name, operations))
    return " && ".join(commands)


def _renewal(trust: Trust, place: Place) -> str:
    """Return how a new certificate is made: by dravirt where the Secret has its authority's key, else by its keeper."""
    if trust.secret and AUTHORITY_KEY in _data(trust.secret):
        return f"dravirt certs rotate --cert --namespace {place.namespace}"
    return remedies.kubectl("delete", "secret", _name(trust.secret), namespace=place.namespace)


def _kept_by_dravirt(place: Place) -> str:
    return f"dravirt certs init --namespace {place.namespace}"


def _name(secret: RawObject | None) -> str:
    return str(mapping(secret or {}, "metadata").get("name"))


def _data(secret: RawObject) -> dict[str, bytes]:
    data = {}
    for name, value in mapping(secret, "data").items():
        try:
            data[name] = base64.b64decode(value or "", validate=True)
        except (binascii.Error, TypeError):
            data[name] = b""
    return data
