"""The webhook's certificate, and whether the caBundle of each webhook leads to it.

Judged from the Secret where it can be read, else by a TLS handshake with the server, as API servers make it.
"""

import base64
import binascii
import datetime as dt
import shlex
from collections.abc import Iterator, Mapping, Sequence

from certs.cabundle import authorities, bundles, mend
from certs.certificates import is_valid, leads_to, names_of
from certs.material import AUTHORITY_KEY, BUNDLE, CHAIN, read_material
from cli.doctor import remedies
from cli.doctor.codes import Code
from cli.doctor.facts import Objects, Place, RawObject, Trust
from cli.doctor.finding import Finding
from cli.doctor.registration import Entry, entries
from dra.contract import SERVICE_NAME
from webhook.raw import annotations, mapping

_WEBHOOKS = "dravirt"
"""The name of the webhook configurations where nothing else is said."""
_OPENSHIFT = "service.beta.openshift.io/originating-service-name"
_OPENSHIFT_INJECTS = "service.beta.openshift.io/inject-cabundle"
"""What OpenShift's service CA writes on a Secret of its own, and where it is to set the caBundle."""
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
        yield Finding(
            Code.CERTIFICATE, subject, f"the certificate: {trust.fault}", _renewal(trust, registrations, place)
        )
    for each in entries(registrations):
        if why := trust.distrust.get(each.name):
            yield Finding(
                Code.CA_BUNDLE, each.subject, f"its caBundle: {why}", _mending(trust, each, registrations, place)
            )


def _mending(trust: Trust, entry: Entry, registrations: Objects, place: Place) -> str:
    """Return the command after which each caBundle of the configuration leads to the certificate."""
    (item,) = (each for each in registrations if _is(each, entry))
    if trust.secret and _OPENSHIFT in annotations(trust.secret):
        resource, mark = entry.kind.lower(), f"{_OPENSHIFT_INJECTS}=true"
        return remedies.kubectl("annotate", "--overwrite", resource, entry.configuration, mark)
    bundle = _data(trust.secret).get(BUNDLE) if trust.secret else None
    if not bundle:
        return _certs(("init",), entry.configuration, trust, place)
    # Without the version: the command is pasted later, and its tests are by name.
    operations = [each for each in mend(item, bundle) if each["path"] != "/metadata/resourceVersion"]
    return remedies.patch(entry.kind.lower(), entry.configuration, operations)


def _renewal(trust: Trust, registrations: Objects, place: Place) -> str:
    """Return how a new certificate is made: by dravirt where the Secret has its authority's key, else by its keeper."""
    if trust.secret and _data(trust.secret).get(AUTHORITY_KEY):
        name = next((each.configuration for each in entries(registrations)), _WEBHOOKS)
        return _certs(("rotate", "--cert"), name, trust, place)
    return remedies.kubectl("delete", "secret", _name(trust.secret), namespace=place.namespace)


def _certs(action: Sequence[str], configuration: str, trust: Trust, place: Place) -> str:
    """Return a `dravirt certs` command line for this installation."""
    words = [*action, "--namespace", place.namespace]
    for option, value, usual in (
        ("--service", place.service, SERVICE_NAME),
        ("--secret", _name(trust.secret) if trust.secret else f"{place.service}-tls", f"{SERVICE_NAME}-tls"),
        ("--webhooks", configuration, _WEBHOOKS),
    ):
        words += [option, value] if value != usual else []
    return shlex.join(("dravirt", "certs", *words))


def _is(item: RawObject, entry: Entry) -> bool:
    return item.get("kind") == entry.kind and mapping(item, "metadata").get("name") == entry.configuration


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
