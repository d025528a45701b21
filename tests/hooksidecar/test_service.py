"""The allocation service as a source: what it answers, how often it is asked, and what it confirms."""

import threading
import time
from itertools import pairwise

import pytest
from support.claimed import allocated, claim_folder, entry, intent, write_metadata

from dra.allocation import AllocatedDevice
from dra.device import Source
from dra.errors import DravirtError, Failed, Refused
from dra.identity import MdevUUID
from dra.intent import ServiceAddress
from dra.reasons import Reason
from hooksidecar import service as services
from hooksidecar.metadatafiles import MetadataFiles
from hooksidecar.resolver import resolve
from hooksidecar.service import AllocationService

A, B = (f"3f0e2a54-6c1d-4b7a-9f33-0c5d1e2b7a1{digit}" for digit in "ab")
ADDRESS = ServiceAddress("https://d:443", "PEM", "d.svc", "/token")
SERVICE = {"url": "https://d:443", "ca": "PEM", "serverName": "d.svc", "tokenPath": "/token"}
HELD = Refused(Reason.CLAIM_HELD, "ResourceClaim 'mine' is held by pod 'other'")


def device(name, uuid, request="vgpu"):
    return AllocatedDevice(request, "vgpu.example.com", "node-7", name, attributes={"mdevUUID": {"string": uuid}})


class Answers:
    """Answers one after the other; the last one for ever."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = 0

    def __call__(self, _address):
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, DravirtError):
            raise answer
        return answer


def source(*answers):
    return AllocationService(ADDRESS, ask=Answers(*answers))


def asking(*entries):
    return intent(*entries, service=SERVICE)


def identities(devices):
    return [str(each.identity) for each in devices]


def test_the_devices_of_each_pod_claim_are_found():
    service = source({"dravirt-gpu0": [device("v0", A)], "dravirt-gpu1": [device("v1", B)]})
    devices = resolve(asking(entry("gpu0"), entry("gpu1")), [service])
    assert identities(devices) == [A, B]
    assert {each.source for each in devices} == {Source.SERVICE}
    assert service._ask.asked == 1


def test_entries_of_one_claim_share_it_by_request():
    devices = {"dravirt-gpu0": [device("v1", B, "big/large"), device("v0", A, "small")]}
    both = asking(entry("gpu0", request="small"), entry("gpu1", request="big", podClaim="dravirt-gpu0"))
    assert identities(resolve(both, [source(devices)])) == [A, B]


def test_devices_keep_the_order_that_metadata_gives_them():
    devices = {"dravirt-gpu0": [device("v1", A), device("v0", B)]}
    assert identities(resolve(asking(entry(count=2)), [source(devices)])) == [B, A]


def test_data_of_the_status_comes_before_attributes():
    told = AllocatedDevice("r", "d.example", "p", "v0", "s", {"mdevUUID": {"string": A}}, {"mdevUUID": B})
    assert identities(resolve(asking(entry()), [source({"dravirt-gpu0": [told]})])) == [B]


UNKNOWN = {
    "no such pod claim": ({}, Reason.CLAIM_MISSING, "no claim 'dravirt-gpu0'"),
    "no such request": ({"dravirt-gpu0": [device("v0", A, "other")]}, Reason.UNKNOWN_REQUEST, "there is other"),
    "no identity": (
        {"dravirt-gpu0": [AllocatedDevice("vgpu", "d.example", "p", "v0", attributes={"x": {"int": 1}})]},
        Reason.NO_IDENTITY,
        "d.example/p/v0 with attributes x",
    ),
}


@pytest.mark.parametrize(("answer", "reason", "text"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_the_answer_does_not_hold_is_told(answer, reason, text):
    with pytest.raises(DravirtError, match=text) as refused:
        resolve(asking(entry(request="vgpu")), [source(answer)])
    assert refused.value.reason is reason


def test_the_error_lists_each_source_and_what_it_said(tmp_path):
    silent = Failed(Reason.SERVICE_UNREACHABLE, "https://d:443: Connection refused")
    with pytest.raises(Failed) as failed:
        resolve(asking(entry()), [MetadataFiles(tmp_path), source(silent)])
    assert "Metadata: " in failed.value.message
    assert "Service: https://d:443: Connection refused" in failed.value.message
    assert failed.value.reason is Reason.SERVICE_UNREACHABLE


# Claims that pods may share.


@pytest.fixture
def metadata(tmp_path):
    """The driver's metadata of the claim `mine`."""
    write_metadata(claim_folder(tmp_path, "vgpu", claim="mine"), allocated("v0", mdevUUID=A))
    return MetadataFiles(tmp_path)


MINE = asking(entry(claim="mine", request="vgpu"))


def test_a_direct_claim_is_confirmed_whatever_source_found_the_device(metadata):
    service = source({"dravirt-gpu0": [device("v0", B)]})
    (found,) = resolve(MINE, [metadata, service])
    assert service._ask.asked == 1
    # Metadata says what was prepared.
    assert (found.identity, found.source) == (MdevUUID(A), Source.METADATA)


UNCONFIRMED = {
    "held": HELD,
    "terminating": Failed(Reason.CLAIM_HELD, "held by pod 'other' and is terminating"),
    "unreachable": Failed(Reason.SERVICE_UNREACHABLE, "Connection refused"),
}


@pytest.mark.parametrize("error", UNCONFIRMED.values(), ids=UNCONFIRMED)
def test_a_direct_claim_that_is_not_confirmed_is_not_attached(metadata, error):
    with pytest.raises(type(error), match="did not confirm") as refused:
        resolve(MINE, [metadata, source(error)])
    assert refused.value.reason is error.reason
    assert error.message in refused.value.message


def test_an_answer_without_the_claim_confirms_nothing(metadata):
    with pytest.raises(Refused, match="did not confirm"):
        resolve(MINE, [metadata, source({})])


def test_a_service_that_is_not_among_the_sources_confirms_nothing(metadata):
    with pytest.raises(Failed, match="did not confirm"):
        resolve(MINE, [metadata])


def test_a_claim_from_a_template_is_not_asked_about_where_metadata_knows_it(tmp_path):
    folder = tmp_path / "resourceclaimtemplates" / "dravirt-gpu0" / "vgpu"
    write_metadata(folder, allocated("v0", mdevUUID=A))
    service = source(HELD)
    assert identities(resolve(asking(entry(request="vgpu")), [MetadataFiles(tmp_path), service])) == [A]
    assert service._ask.asked == 0


def test_without_a_service_a_direct_claim_is_taken_as_it_is(metadata):
    assert identities(resolve(intent(entry(claim="mine", request="vgpu")), [metadata])) == [A]


# How often it is asked.


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands, and pauses that are as long as they may be."""
    now = [1000.0]
    monkeypatch.setattr(services.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(services.random, "uniform", lambda _low, high: high)
    return now


def look(service):
    try:
        resolve(asking(entry()), [service])
    except DravirtError as error:
        return error.reason
    return "found"


def test_after_an_error_it_is_left_alone_for_longer_each_time(clock):
    service = source(Failed(Reason.BUSY, "busy"))
    asked = []
    for _ in range(300):
        assert look(service) is Reason.BUSY
        if len(asked) < service._ask.asked:
            asked.append(clock[0] - 1000)
        clock[0] += 0.1
    assert [round(later - earlier, 1) for earlier, later in pairwise(asked)] == pytest.approx(
        [0.5, 1.0, 2.0] + 6 * [4.0], abs=0.11
    )


def test_pods_that_started_together_do_not_stay_together():
    waits = {round(source(HELD)._pause(), 4) for _ in range(50)}
    assert len(waits) > 30
    assert min(waits) >= 0.25
    assert max(waits) <= 0.5


def test_an_answer_ends_the_pause(clock):
    service = source(HELD, {"dravirt-gpu0": [device("v0", A)]})
    assert look(service) is Reason.CLAIM_HELD
    assert look(service) is Reason.CLAIM_HELD
    clock[0] += 1
    assert look(service) == "found"
    assert service._ask.asked == 2


def test_a_question_that_takes_long_goes_on_and_is_not_asked_twice(monkeypatch):
    monkeypatch.setattr(services, "PATIENCE", 0.05)
    answered, asked = threading.Event(), []

    def slow(_address):
        asked.append(1)
        answered.wait(10)
        return {"dravirt-gpu0": [device("v0", A)]}

    service = AllocationService(ADDRESS, ask=slow)
    started = time.monotonic()
    for _ in range(3):
        with pytest.raises(Failed, match="no answer yet"):
            resolve(asking(entry()), [service])
    assert time.monotonic() - started < 2
    answered.set()
    monkeypatch.setattr(services, "PATIENCE", 5)
    assert identities(resolve(asking(entry()), [service])) == [A]
    assert asked == [1]


def test_a_defect_of_ours_is_told_to_the_one_who_waits():
    def defect(_address):
        raise ZeroDivisionError

    with pytest.raises(Failed, match="ZeroDivisionError") as failed:
        resolve(asking(entry()), [AllocationService(ADDRESS, ask=defect)])
    assert failed.value.reason is Reason.INTERNAL_ERROR
