"""KEP-5304 device metadata: the file that a DRA driver writes for the containers that use a claim.

The file is a stream of JSON objects, the same facts once per API version. A reader takes the first object that it
understands and passes over versions and shapes that it does not know.
Source: KEP-5304; k8s.io/dynamic-resource-allocation/devicemetadata, decode.go.
"""

import json
from collections.abc import Iterator
from itertools import islice

from dra.allocation import AllocatedDevice
from dra.errors import Failed, Refused
from dra.fields import Fields
from dra.names import require_dns_label, require_dns_subdomain, require_pool, require_request
from dra.reasons import Reason

KNOWN_VERSIONS = ("metadata.resource.k8s.io/v1beta1", "metadata.resource.k8s.io/v1alpha1")
MAX_METADATA = 512 * 1024
"""Bytes of a metadata file: 32 devices with 32 attributes fit in twice. Reading takes up to 24 times the memory."""
MAX_OBJECTS = 16
"""Objects of a stream that are looked at: a driver writes one per API version."""


def decode_metadata(data: bytes, *, path: str) -> tuple[AllocatedDevice, ...]:
    """Return the devices in the metadata file at `path`, in the order they are written.

    Raises Failed where the file is empty or cut (drivers rewrite it in place: retry), Refused where no object in it is
    of a known version and shape.
    """
    passed_over: list[str] = []
    for value in islice(_objects(data, path), MAX_OBJECTS):
        fields = Fields.of(value, path, Reason.INVALID_METADATA)
        version = fields.optional_text("apiVersion") or ""
        if version not in KNOWN_VERSIONS:
            passed_over.append(f"apiVersion {version[:80]!a} is not known")
        elif not isinstance(fields.raw.get("requests"), list):
            passed_over.append(f"{version} has no list `requests`")
        else:
            return tuple(_devices(fields))
    found, known = "; ".join(passed_over), ", ".join(KNOWN_VERSIONS)
    raise Refused(Reason.INVALID_METADATA, f"holds no metadata that is understood: {found}; known: {known}", path=path)


def _objects(data: bytes, path: str) -> Iterator[object]:
    """Yield the objects of the stream one by one: what follows the first known one is never looked at."""
    if len(data) > MAX_METADATA:
        raise Refused(Reason.INVALID_METADATA, f"is larger than {MAX_METADATA} bytes", path=path)
    try:
        text = data.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        # A file that is cut within a character looks the same as one in another encoding.
        raise Failed(Reason.INVALID_METADATA, f"{path}: is not UTF-8 or is cut: {error}") from error
    if not text:
        raise Failed(Reason.INVALID_METADATA, f"{path}: is empty: the driver has not written it yet")
    decoder, start = json.JSONDecoder(), 0
    while start < len(text):
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            raise Failed(Reason.INVALID_METADATA, f"{path}: is no JSON or is cut: {error}") from error
        yield value
        start = len(text) - len(text[end:].lstrip())


def _devices(metadata: Fields) -> Iterator[AllocatedDevice]:
    for i, raw_request in enumerate(metadata.items("requests")):
        request = Fields.of(raw_request, f"{metadata.at('requests')}[{i}]", metadata.reason)
        name = require_request(request.text("name"), request.at("name"), request.reason)
        for j, raw_device in enumerate(request.items("devices")):
            yield _device(name, Fields.of(raw_device, f"{request.at('devices')}[{j}]", metadata.reason))


def _device(request: str, fields: Fields) -> AllocatedDevice:
    return AllocatedDevice(
        request=request,
        driver=require_dns_subdomain(fields.text("driver"), fields.at("driver"), fields.reason),
        pool=require_pool(fields.text("pool"), fields.at("pool"), fields.reason),
        device=require_dns_label(fields.text("name"), fields.at("name"), fields.reason),
        attributes=fields.mapping("attributes").raw,
    )
