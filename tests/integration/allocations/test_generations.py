"""A pool that grows a generation while it is read: devices of one generation, or come again."""

import itertools
import threading

import pytest
from integration.allocations.questions import Questions
from integration.allocations.site import found

from dra.errors import Failed
from dra.reasons import Reason
from webhook.kubedra import PAGE

DRIVER = "vgpu.generations.example"
SLICES, DEVICES = 3, 2
MORE_THAN_A_PAGE = PAGE + 4


def uuid(number):
    return f"6f0e2a54-6c1d-4b7a-9f33-{number:012x}"


def publish(site, generation, slices=SLICES):
    """Publish the pool slice by slice, as a driver does; in each generation the devices are in other slices."""
    for index in range(slices):
        numbers = [(index * DEVICES + offset + generation) % (slices * DEVICES) for offset in range(DEVICES)]
        attributes = {"generation": {"int": generation}}
        devices = [{"name": f"v{n}", "attributes": {"mdevUUID": {"string": uuid(n)}, **attributes}} for n in numbers]
        pool = {"name": "paper-1/moving", "generation": generation, "resourceSliceCount": slices}
        spec = {"driver": DRIVER, "nodeName": "paper-1", "pool": pool, "devices": devices}
        site.make("ResourceSlice", f"{DRIVER}-{index}", spec)


def start(site, slices, **request):
    """Publish the pool and return the token of a pod that has devices of it."""
    publish(site, 1, slices)
    site.make("DeviceClass", DRIVER, {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]})
    site.template("t", {"name": "all", "exactly": {"deviceClassName": DRIVER, **request}})
    return site.token(site.pod("vm1", gpu0={"resourceClaimTemplateName": "t"}))


@pytest.fixture
def token(site):
    """The token of a pod that has all devices of the pool."""
    return start(site, SLICES, allocationMode="All")


def generations(answer):
    return {each.attributes["generation"]["int"] for each in answer["dravirt-gpu0"]}


def test_while_a_pool_is_published_anew_again_and_again_devices_are_of_one_generation(site, token):
    right = [("all", f"v{number}", uuid(number)) for number in range(SLICES * DEVICES)]
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
                lambda it: len(it.told) >= 5 and len({min(generations(each)) for each in it.answers}) >= 5,
                "answers of several generations, and some to come again",
            )
    finally:
        stop.set()
        driver.join()
    for each in questions.answers:
        assert len(generations(each)) == 1
        assert sorted(found(each)["dravirt-gpu0"]) == right
    assert {(type(each), each.reason) for each in questions.told} == {(Failed, Reason.INCOMPLETE_POOL)}
    assert generations(site.ask(token)) == {last[0]}


def test_a_pool_of_several_pages_is_read_as_it_was_at_one_moment(site):
    token = start(site, MORE_THAN_A_PAGE, count=MORE_THAN_A_PAGE // 2)
    right = found(site.ask(token))
    with Questions(site, [token]) as questions:
        for generation in range(2, 5):
            publish(site, generation, MORE_THAN_A_PAGE)
            questions.wait_for(
                lambda it, wanted=generation: it.answers and generations(it.answers[-1]) == {wanted},
                f"an answer of {generation}",
            )
    assert all(len(generations(each)) == 1 and found(each) == right for each in questions.answers)
    assert {(type(each), each.reason) for each in questions.told} == {(Failed, Reason.INCOMPLETE_POOL)}
    assert all(identity == uuid(int(name[1:])) for _, name, identity in right["dravirt-gpu0"])


def test_a_pool_that_went_and_comes_back_is_waited_for(site, token):
    slices = [each for each in site.made if each["kind"] == "ResourceSlice"]
    for each in slices:
        site.api.delete(each)
    with pytest.raises(Failed) as failed:
        site.ask(token)
    assert failed.value.reason is Reason.INCOMPLETE_POOL
    publish(site, 1)
    assert len(site.ask(token)["dravirt-gpu0"]) == SLICES * DEVICES
