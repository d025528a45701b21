"""Of a pool the newest generation counts, and only as a whole."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.allocations import DRIVER, NODE, device, in_v1beta1, mdevs, resource_slice

from dra.errors import Failed, Refused
from dra.reasons import Reason
from webhook.allocations.pools import PoolName, pool_devices

POOL = PoolName(DRIVER, NODE)


def names(slices, pool=POOL):
    return sorted(pool_devices(slices, pool))


def test_devices_of_all_slices_of_the_pool_are_there_with_their_attributes():
    slices = [resource_slice("a", mdevs(2), count=2), resource_slice("b", mdevs(2, first=2), count=2)]
    assert names(slices) == ["v0", "v1", "v2", "v3"]
    assert pool_devices(slices, POOL)["v0"]["mdevUUID"]["string"].endswith("000000000000")


def test_other_pools_and_drivers_do_not_count():
    others = [resource_slice("b", pool="node-8"), resource_slice("c", driver="other.example.com")]
    assert names([resource_slice("a", mdevs(1)), *others]) == ["v0"]


def test_an_older_generation_does_not_count():
    old = resource_slice("old", [device("v0", mdevUUID="old")])
    new = resource_slice("new", [device("v0", mdevUUID="new")], generation=2)
    for slices in itertools.permutations([old, new]):
        assert pool_devices(slices, POOL) == {"v0": {"mdevUUID": {"string": "new"}}}


INCOMPLETE = {
    "none": [],
    "one of two": [resource_slice("a", count=2)],
    "a new generation of which one is there": [resource_slice("a"), resource_slice("b", generation=2, count=2)],
    "more than there should be": [resource_slice("a", mdevs(1)), resource_slice("b", mdevs(1, first=1))],
    "they do not agree": [resource_slice("a", count=2), resource_slice("b", mdevs(1, first=5), count=3)],
    "count is missing": [resource_slice("a", count=None)],
}


@pytest.mark.parametrize("slices", INCOMPLETE.values(), ids=INCOMPLETE)
def test_a_pool_that_is_not_whole_is_waited_for(slices):
    with pytest.raises(Failed) as failed:
        pool_devices(slices, POOL)
    assert failed.value.reason is Reason.INCOMPLETE_POOL


def test_a_slice_that_was_read_twice_counts_once_as_it_was_last():
    before, after = resource_slice("a", mdevs(1)), resource_slice("a", mdevs(2), generation=2)
    assert names([before, after]) == ["v0", "v1"]
    assert names([before, before]) == ["v0"]


def test_two_devices_of_one_name_are_nobodys():
    slices = [resource_slice("a", mdevs(1), count=2), resource_slice("b", mdevs(2), count=2)]
    with pytest.raises(Refused) as refused:
        pool_devices(slices, POOL)
    assert refused.value.reason is Reason.INVALID_POOL


def test_v1beta1_says_the_same():
    slice_ = resource_slice("a")
    assert pool_devices([in_v1beta1(slice_)], POOL) == pool_devices([slice_], POOL)


def test_slices_of_counters_hold_no_devices_and_count():
    counters = resource_slice("counters", count=2)
    counters["spec"]["sharedCounters"] = [{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}]
    del counters["spec"]["devices"]
    assert names([counters, resource_slice("a", mdevs(1), count=2)]) == ["v0"]


@given(st.permutations(range(6)), st.integers(0, 6))
def test_while_a_generation_replaces_another_there_is_never_a_device_of_the_old_one(order, seen):
    """Whatever part of an update is seen: all of the new generation, all of the old one, or a retry."""
    old = [resource_slice(f"o{n}", [device(f"v{n}", mdevUUID="old")], count=3) for n in range(3)]
    new = [resource_slice(f"n{n}", [device(f"v{n}", mdevUUID="new")], generation=2, count=3) for n in range(3)]
    slices = [(old + new)[index] for index in order[:seen]]
    try:
        devices = pool_devices(slices, POOL)
    except Failed:
        return
    values = {each["mdevUUID"]["string"] for each in devices.values()}
    assert len(devices) == 3
    assert values == ({"new"} if any(each in new for each in slices) else {"old"})
