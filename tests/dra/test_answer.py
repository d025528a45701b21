"""The answer of the allocation service: what one release writes, another reads."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.allocation import AllocatedDevice
from dra.answer import answer_to_json, read_answer
from dra.errors import Refused
from dra.reasons import Reason

UUID = "3f0e2a54-6c1d-4b7a-9f33-000000000000"
DEVICE = {
    "request": "main/sub",
    "driver": "vgpu.example.com",
    "pool": "rack/1",
    "device": "v0",
    "shareID": "5d1f7c3e-0000-4000-8000-000000000001",
    "attributes": {"mdevUUID": {"string": UUID}},
    "data": {"mdevUUID": UUID},
}
ANSWER = {"version": 1, "podClaims": {"dravirt-gpu0": [DEVICE]}}


def read(value):
    return read_answer(json.dumps(value).encode(), path="answer")


def test_the_contract_is_read_field_by_field():
    (device,) = read(ANSWER)["dravirt-gpu0"]
    assert device == AllocatedDevice(
        request="main/sub",
        driver="vgpu.example.com",
        pool="rack/1",
        device="v0",
        share_id="5d1f7c3e-0000-4000-8000-000000000001",
        attributes={"mdevUUID": {"string": UUID}},
        data={"mdevUUID": UUID},
    )
    assert answer_to_json({"dravirt-gpu0": [device]}) == ANSWER


def test_what_a_newer_service_adds_is_passed_over():
    (device,) = read(ANSWER | {"more": 1, "podClaims": {"dravirt-gpu0": [DEVICE | {"health": "good"}]}})["dravirt-gpu0"]
    assert device.device == "v0"


def test_what_an_older_service_leaves_out_is_empty():
    short = {key: DEVICE[key] for key in ("request", "driver", "pool", "device")}
    (device,) = read(ANSWER | {"podClaims": {"dravirt-gpu0": [short]}})["dravirt-gpu0"]
    assert (device.share_id, device.attributes, device.data) == (None, {}, {})


WRONG = {
    "no version": {"podClaims": {}},
    "another version": {"version": 2, "podClaims": {}},
    "a list": [],
    "claims as a list": {"version": 1, "podClaims": []},
    "a claim's name": {"version": 1, "podClaims": {"../x": []}},
    "devices as a mapping": {"version": 1, "podClaims": {"a": {}}},
    "a device as text": {"version": 1, "podClaims": {"a": ["v0"]}},
    **{
        f"{key} is wrong": {"version": 1, "podClaims": {"a": [DEVICE | {key: value}]}}
        for key, value in {
            "request": "a/b/c",
            "driver": "../x",
            "pool": "a//b",
            "device": "A B",
            "shareID": 1,
            "attributes": [],
            "data": "x",
        }.items()
    },
}


@pytest.mark.parametrize("value", WRONG.values(), ids=WRONG)
def test_anything_else_is_refused(value):
    with pytest.raises(Refused) as refused:
        read(value)
    assert refused.value.reason is Reason.INVALID_ANSWER
    assert str(refused.value).startswith("answer")


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_refused_in_words(data):
    with pytest.raises(Refused):
        read_answer(data, path="answer")
