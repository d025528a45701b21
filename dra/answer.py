"""The answer of the allocation service: the devices of one pod, by pod claim, as JSON.

    {"version": 1, "podClaims": {"dravirt-gpu0": [
        {"request", "driver", "pool", "device", "shareID", "attributes": {...}, "data": {...}}]}}

The webhook writes it and the sidecar reads it, and either may be of an older release: unknown keys are ignored.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dra.allocation import AllocatedDevice
from dra.errors import Refused
from dra.fields import Fields
from dra.names import require_dns_label, require_dns_subdomain, require_pool, require_request
from dra.reasons import Reason

VERSION = 1
"""Of the question `{"version": 1}` and of the answer."""
MAX_ANSWER = 2 * 1024 * 1024
"""Bytes: 32 devices with 10 KiB of data and 32 attributes each are far below."""
_WRONG = Reason.INVALID_ANSWER


def answer_to_json(pod_claims: Mapping[str, Sequence[AllocatedDevice]]) -> dict[str, Any]:
    """Return the answer for the devices of each pod claim."""
    claims = {name: [_to_json(device) for device in devices] for name, devices in pod_claims.items()}
    return {"version": VERSION, "podClaims": claims}


def read_answer(data: bytes, *, path: str) -> dict[str, tuple[AllocatedDevice, ...]]:
    """Return the devices of each pod claim in the answer `data`; `path` names who gave it. Raises Refused."""
    fields = read_fields(data, path=path)
    check_version(fields)
    claims = fields.mapping("podClaims")
    return {
        require_dns_label(name, claims.at(name), _WRONG): tuple(
            _device(Fields.of(raw, f"{claims.at(name)}[{index}]", _WRONG))
            for index, raw in enumerate(claims.items(name))
        )
        for name in claims.raw
    }


def read_fields(data: bytes, *, path: str) -> Fields:
    """Return the fields of a JSON object that the service sent. Raises Refused."""
    try:
        return Fields.of(json.loads(data), path, _WRONG)
    except (ValueError, RecursionError) as error:
        raise Refused(_WRONG, f"is no JSON: {error!s:.200}", path=path) from error


def check_version(fields: Fields) -> None:
    """Refuse a question or an answer of another version."""
    version = fields.integer("version", 0, low=0, high=10**6)
    if version != VERSION:
        raise fields.refuse("version", f"{version} is not known here, {VERSION} is")


def _to_json(device: AllocatedDevice) -> dict[str, Any]:
    return {
        "request": device.request,
        "driver": device.driver,
        "pool": device.pool,
        "device": device.device,
        "shareID": device.share_id,
        "attributes": device.attributes,
        "data": device.data,
    }


def _device(fields: Fields) -> AllocatedDevice:
    return AllocatedDevice(
        request=require_request(fields.text("request"), fields.at("request"), _WRONG),
        driver=require_dns_subdomain(fields.text("driver"), fields.at("driver"), _WRONG),
        pool=require_pool(fields.text("pool"), fields.at("pool"), _WRONG),
        device=require_dns_label(fields.text("device"), fields.at("device"), _WRONG),
        share_id=fields.optional_text("shareID"),
        attributes=fields.mapping("attributes").raw,
        data=fields.mapping("data").raw,
    )
