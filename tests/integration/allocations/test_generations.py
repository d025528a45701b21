"""A pool that grows a generation while it is read: devices of one generation, or come again."""

import itertools
import threading

import pytest
from integration.allocations.questions import Questions
from integration.allocations.site import found

from dra.errors import Failed
from dra.reasons import Reason

DRIVER = "vgpu.generations.example"
SLICES, DEVICES = 3, 2
UUIDS = [f"6f0e2a54-6c1d-4b7a-9f33-{number:012x}" for number in range(SLICES * DEVICES)]


def publish(site, generation):
    """Publish the pool slice by slice, as a driver does; in each generation the devices are in other slices."""
    for index in range(SLICES):
        numbers = [(index * DEVICES + offset + generation) % len(UUIDS) for offset in range(DEVICES)]
        attributes = {"generation": {"int": generation}}
        devices = [{"name": f"v{n}", "attributes": {"mdevUUID": {"string": UUIDS[n]}, **attributes}} for n in numbers]
        pool = {"name": "paper-1/moving", "generation": generation, "resourceSliceCount": SLICES}
        spec = {"driver": DRIVER, "nodeName": "paper-1", "pool": pool, "devices": devices}
        site.make("ResourceSlice", f"{DRIVER}-{index}", spec)


@pytest.fixture
def token(site):
    """The token of a pod that has all devices of the pool."""
    publish(site, 1)
    site.make("DeviceClass", DRIVER, {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]})
    site.template("t", {"name": "all", "exactly": {"deviceClassName": DRIVER, "allocationMode": "All"}})
    return site.token(site.pod("vm1", gpu0={"resourceClaimTemplateName": "t"}))


def generations(answer):
    return {each.attributes["generation"]["int"] for each in answer["dravirt-gpu0"]}


def test_while_a_pool_is_published_anew_again_and_again_devices_are_of_one_generation(site, token):
    right = [("all", f"v{number}", uuid) for number, uuid in enumerate(UUIDS)]
    stop, last = threading.Event(), [1]

    def grow():
        for last[0] in itertools.count(2):
            publish(site, last[0])
            if stop.is_set():
                return

    driver = threading.Thread(target=grow)
    driver.start()
    try:
        with Questions(site, [token]) as questions:
            questions.wait_for(
                lambda it: len(it.errors) >= 5 and len({min(generations(each)) for each in it.answers}) >= 5,
                "answers of several generations, and some to come again",
            )
    finally:
        stop.set()
        driver.join()
    for each in questions.answers:
        assert len(generations(each)) == 1
        assert sorted(found(each)["dravirt-gpu0"]) == right
    assert {(type(each), each.reason) for each in questions.errors} == {(Failed, Reason.INCOMPLETE_POOL)}
    assert generations(site.ask(token)) == {last[0]}


def test_a_pool_that_went_and_comes_back_is_waited_for(site, token):
    slices = [each for each in site.made if each["kind"] == "ResourceSlice"]
    for each in slices:
        site.api.delete(each)
    outcome = site.outcome(token)
    assert (type(outcome), outcome.reason) == (Failed, Reason.INCOMPLETE_POOL)
    publish(site, 1)
    assert len(site.ask(token)["dravirt-gpu0"]) == len(UUIDS)
