"""The targets: each takes any bytes, and raises where a rule of ours is broken.

Only the two families of errors may come out of what is called, and what is accepted must hold its promises.
"""

import json
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from support.claimed import entry, intent
from support.domains import alias, mdev, outside, parse, source, vgpu_vf

from dra.attributes import identity_of, profile_of
from dra.claims import pod_claims
from dra.errors import DravirtError, Refused
from dra.identity import MdevUUID, PciAddress
from dra.intent import Intent, Mode, read_intent
from dra.metadata import decode_metadata
from dra.names import is_dns_label, is_dns_subdomain
from dra.request import parse_requests
from hooksidecar.attachment import _read_vmi
from hooksidecar.display import Surroundings, choose_displays
from hooksidecar.domain import edit_domain
from hooksidecar.metadatafiles import MetadataFiles
from hooksidecar.resolver import resolve
from hooksidecar.wire import decode, encode
from webhook.admission import HANDLERS
from webhook.config import Config
from webhook.review import read_review, write_review
from webhook.yamltext import load

_DEVICES = (mdev("a", 1), vgpu_vf("b", 2))
_PREFIXES = {Mode.PLACEHOLDER: "ua-gpu-", Mode.APPEND: "ua-dravirt-"}
_PLACEHOLDER = re.compile("0{8}000040008000[0-9a-fA-F]{12}")
_MAX_ERROR = 2500
"""Characters of an error: a gRPC status and a condition hold it."""


def domain(data: bytes) -> None:
    """Edit a domain, in both modes."""
    for mode in Mode:
        try:
            answer = edit_domain(data, _DEVICES, mode=mode, vmi=None)
        except Refused as error:
            _check_error(error)
            continue
        _check_answer(data, answer, mode)


def _check_answer(given: bytes, answer: bytes, mode: Mode) -> None:
    ours = {_PREFIXES[mode] + device.name: device for device in _DEVICES}
    found = [element for element in parse(answer).findall("devices/hostdev") if _alias(element) in ours]
    assert sorted(_alias(element) for element in found) == sorted(ours), "each device is there once"
    for element in found:
        assert _identity(source(element)) == ours[_alias(element)].identity
    addresses = parse(answer).iterfind("devices/hostdev/source/address")
    uuids = ["".join(address.get("uuid", "").replace("-", " ").split()) for address in addresses]
    assert not any(map(_PLACEHOLDER.fullmatch, uuids)), "no placeholder is left"
    appended = mode is Mode.APPEND
    assert outside(answer, ours, appended=appended) == outside(given, ours, appended=appended), "the rest is untouched"
    assert edit_domain(answer, _DEVICES, mode=mode, vmi=None) == answer, "the edit of an edited domain changes nothing"


def _alias(element: Any) -> str:
    return alias(element) or ""


def _identity(address: Mapping[str, str]) -> MdevUUID | PciAddress:
    if "uuid" in address:
        return MdevUUID.parse(address["uuid"])
    return PciAddress(*(int(address[name], 16) for name in ("domain", "bus", "slot", "function")))


def vmi(data: bytes) -> None:
    """Choose displays by what a VMI wishes."""
    surroundings = Surroundings(graphics=True, display=False, ramfb=False)
    devices = (mdev("a", 1), mdev("b", 2))
    try:
        displays = choose_displays(devices, _read_vmi(data), surroundings)
    except Refused as error:
        _check_error(error)
        return
    assert displays.keys() == {"a", "b"}
    assert sum(display.ramfb for display in displays.values()) <= 1
    assert all(display.display for display in displays.values() if display.ramfb)


def metadata(data: bytes) -> None:
    """Read the metadata file of a driver, and the identities in it."""
    try:
        devices = decode_metadata(data, path="x-metadata.json")
    except DravirtError as error:
        _check_error(error)
        return
    for device in devices:
        assert is_dns_label(device.device)
        assert is_dns_subdomain(device.driver)
        try:
            identity_of(device, {})
        except Refused as error:
            _check_error(error)
        profile_of(device, {})


_FILES = ("vgpu/a.example-metadata.json", "vgpu/b.example-metadata.json", "gpu/a.example-metadata.json")
_INTENT = intent(entry("a", request="vgpu"), entry("b", request="gpu/big", podClaim="dravirt-a"))
_FOLDER = tempfile.TemporaryDirectory(prefix="dravirt-fuzz-")  # (gone when the process ends)


def claim(data: bytes) -> None:
    """Find the devices of two entries in the files of a claim: what stands between NUL bytes is one file each."""
    folder = Path(_FOLDER.name, "resourceclaimtemplates", "dravirt-a")
    contents = data.split(b"\0")
    for path, content in zip(_FILES, contents + [b""] * len(_FILES), strict=False):
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    try:
        devices = resolve(_INTENT, [MetadataFiles(Path(_FOLDER.name))])
    except DravirtError as error:
        _check_error(error)
        return
    assert [device.name for device in devices] == ["a", "b"]
    assert len({device.identity for device in devices}) == len(devices)


def annotation(data: bytes) -> None:
    """Read the annotation, and hand what it asks for on to the sidecar."""
    try:
        requests = parse_requests(data.decode("utf-8", "replace"), load, path="annotation")
        claims = pod_claims(requests, path="annotation")
    except Refused as error:
        _check_error(error)
        return
    names = [name for request in requests for name in request.device_names]
    assert len(set(names)) == len(names) <= 32
    assert all(map(is_dns_label, [*names, *(each.name for each in claims)]))
    told = Intent.of(Mode.PLACEHOLDER, claims, requests)
    assert read_intent(told.to_json(), path="intent") == told


def intents(data: bytes) -> None:
    """Read an intent."""
    try:
        told = read_intent(data.decode("utf-8", "replace"), path="intent")
    except Refused as error:
        _check_error(error)
        return
    assert read_intent(told.to_json(), path="intent") == told


def review(data: bytes) -> None:
    """Answer an AdmissionReview, whatever path it is posted to."""
    for handler in HANDLERS.values():
        try:
            request = read_review(data, group=handler.group, kind=handler.kind)
        except Refused as error:
            _check_error(error)
            continue
        for config in (Config(), Config(mode=Mode.APPEND)):
            answer = json.loads(write_review(request.uid, handler.decide(request, config)))
            assert answer["response"]["allowed"] in (True, False)


def wire(data: bytes) -> None:
    """Decode a hook message."""
    try:
        fields = decode(data)
    except ValueError:
        return
    assert decode(encode(fields.items())) == {number: value for number, value in fields.items() if value}


def _check_error(error: DravirtError) -> None:
    assert error.message
    assert len(error.message) <= _MAX_ERROR, f"an error of {len(error.message)} characters"


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    "domain": domain,
    "vmi": vmi,
    "metadata": metadata,
    "claim": claim,
    "annotation": annotation,
    "intent": intents,
    "review": review,
    "wire": wire,
}
