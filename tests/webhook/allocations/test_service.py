"""From a token to the devices of its pod, through a real client of a real HTTP API."""

import asyncio
import time

import pytest
from support.allocations import (
    DRIVER,
    NODE,
    UUIDS,
    claim,
    consumer,
    device,
    mdevs,
    pod,
    resource_slice,
    result,
    review_status,
)

from dra.errors import DravirtError, Failed, Refused
from dra.reasons import Reason
from webhook.allocations import service
from webhook.allocations.gate import Gate
from webhook.allocations.service import SECONDS, AllocationService
from webhook.kubedra import MAX_PAGES, PAGE

SHARE = "5d1f7c3e-0000-4000-8000-000000000001"


def found(devices):
    """Return request, device and mdev UUID of each device, by pod claim."""
    return {
        name: [(each.request, each.device, each.attributes.get("mdevUUID", {}).get("string")) for each in of]
        for name, of in devices.items()
    }


def refusal(ask, token="t1", family=DravirtError, **more):
    with pytest.raises(family) as refused:
        ask(token, **more)
    return refused.value


def slice_lists(api):
    return [each for each in api.asked if "resourceslices" in each]


# What is found.


def test_a_claim_from_a_template(ask):
    assert found(ask("t1")) == {"dravirt-gpu0": [("vgpu", "v0", UUIDS[0])]}


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_each_version_alone_gives_the_same(api, ask, version):
    api.write("versions", [version])
    assert found(ask("t1")) == {"dravirt-gpu0": [("vgpu", "v0", UUIDS[0])]}
    assert {each.split("/")[3] for each in api.asked if "resource.k8s.io/" in each} == {version}


def test_the_best_version_that_our_code_may_use_is_used(api, ask):
    ask("t1", versions=("v1beta2", "v1beta1"))
    assert "v1beta2" in slice_lists(api)[0]


def test_count_all_alternatives_several_requests_and_two_drivers(api, ask):
    item = pod("vm1", templates={"dravirt-a": "one", "dravirt-b": "two"}, claims={"dravirt-c": "mine"})
    api.enter(item, "t1")
    other = "gpu.example.org"
    api.put(
        claim("one", result("v0", request="vgpu"), result("v1", request="vgpu"), owner=item),
        claim("two", result("v2", request="gpu/large"), result("x0", request="nic", driver=other), owner=item),
        claim("mine", result("v3"), reserved=[item]),
        resource_slice("other", [device("x0", pci="0000:65:00.0")], driver=other),
    )
    devices = ask("t1")
    assert found(devices) == {
        "dravirt-c": [("vgpu", "v3", UUIDS[3])],
        "dravirt-a": [("vgpu", "v0", UUIDS[0]), ("vgpu", "v1", UUIDS[1])],
        "dravirt-b": [("gpu/large", "v2", UUIDS[2]), ("nic", "x0", None)],
    }
    assert devices["dravirt-b"][1].attributes["resource.kubernetes.io/pciBusID"] == {"string": "0000:65:00.0"}


def test_an_mdev_made_at_prepare_is_known_by_the_status_alone_and_no_slice_is_asked(api, ask):
    entry = {"driver": DRIVER, "pool": NODE, "device": "v0", "data": {"mdevUUID": UUIDS[5]}}
    api.put(claim("vm1-gpu0", owner=pod("vm1"), devices=[entry]))
    (only,) = ask("t1")["dravirt-gpu0"]
    assert only.data == {"mdevUUID": UUIDS[5]}
    assert slice_lists(api) == []


def test_a_pool_of_the_node_is_asked_for_by_driver_and_node_only(api, ask):
    api.put(resource_slice("far", pool="node-8", node="node-8"))
    ask("t1")
    (asked,) = slice_lists(api)
    assert f"fieldSelector=spec.driver%3D{DRIVER}%2Cspec.nodeName%3D{NODE}" in asked


def test_a_pool_in_the_network_is_found_without_the_slices_of_other_nodes(api, ask):
    api.put(
        claim("vm1-gpu0", result("v9", pool="rack/1"), owner=pod("vm1")),
        resource_slice("net", mdevs(1, first=9), pool="rack/1", node=None),
    )
    assert found(ask("t1")) == {"dravirt-gpu0": [("vgpu", "v9", UUIDS[9])]}
    assert len(slice_lists(api)) == 2


def test_a_pool_over_several_nodes_is_found_whole(api, ask):
    api.put(
        resource_slice("here", mdevs(1), count=2),
        resource_slice("there", mdevs(1, first=1), count=2, node="node-8"),
    )
    api.remove(resource_slice("slice-0"))
    assert found(ask("t1")) == {"dravirt-gpu0": [("vgpu", "v0", UUIDS[0])]}
    assert len(slice_lists(api)) == 3


def test_a_list_in_pages_is_read_to_its_end(api, ask):
    count = PAGE + 5
    api.clear("resourceslices")
    api.put(*[resource_slice(f"s{n}", [device(f"d{n}", mdevUUID=UUIDS[0])], count=count) for n in range(count)])
    api.put(claim("vm1-gpu0", result(f"d{count - 1}"), owner=pod("vm1")))
    assert found(ask("t1")) == {"dravirt-gpu0": [("vgpu", f"d{count - 1}", UUIDS[0])]}
    assert len(slice_lists(api)) == 2


def test_a_version_that_vanishes_is_replaced_while_the_server_runs(api, with_cluster):
    async def work(cluster):
        asked = AllocationService(lambda: cluster, dict, Gate())
        await asked.answer("t1")
        api.write("versions", ["v1beta1"])
        return (await asked.answer("t1")).pod_claims

    assert found(with_cluster(work)) == {"dravirt-gpu0": [("vgpu", "v0", UUIDS[0])]}


def test_a_version_that_is_told_and_not_served_yet_is_waited_for(api, ask):
    api.fail({"path": "/v1/namespaces/", "status": 404, "message": "not served yet"})
    assert refusal(ask, family=Failed).reason is Reason.API_UNAVAILABLE


# Who is refused.


def test_a_token_that_is_not_authenticated(ask):
    assert refusal(ask, "expired", Refused).reason is Reason.INVALID_TOKEN


def test_a_token_for_another_audience(api, ask):
    api.write("tokens/t1", review_status(pod("vm1"), audiences=["https://kubernetes.default.svc"]))
    assert refusal(ask, family=Refused).reason is Reason.INVALID_TOKEN


def test_the_token_of_a_pod_that_was_deleted_or_made_again(api, ask):
    api.put(pod("vm1", uid="another"))
    assert refusal(ask, family=Refused).reason is Reason.POD_MISMATCH
    api.remove(pod("vm1"))
    assert refusal(ask, family=Refused).reason is Reason.POD_MISMATCH


def test_a_token_from_another_node(api, ask):
    api.write("tokens/t1", review_status(pod("vm1", node="node-8")))
    assert refusal(ask, family=Refused).reason is Reason.POD_MISMATCH


def test_a_pod_gets_nothing_of_a_claim_that_was_made_for_another(api, ask):
    api.enter(pod("vm2"), "t2")
    api.put(claim("vm2-gpu0", result("v1"), owner=pod("vm2")))
    assert found(ask("t1")) == {"dravirt-gpu0": [("vgpu", "v0", UUIDS[0])]}
    assert found(ask("t2")) == {"dravirt-gpu0": [("vgpu", "v1", UUIDS[1])]}
    # Its status may say what it likes: only KCM writes it, and the owner is looked at all the same.
    api.put(pod("vm2", templates={"dravirt-gpu0": "vm1-gpu0"}))
    assert refusal(ask, "t2", Refused).reason is Reason.CLAIM_MISSING


def test_another_namespace_is_never_read(api, ask):
    api.put(claim("vm1-gpu0", result("v3"), owner=pod("vm1"), namespace="team-b"))
    assert found(ask("t1")) == {"dravirt-gpu0": [("vgpu", "v0", UUIDS[0])]}
    assert not [each for each in api.asked if "team-b" in each]


def test_admin_access_and_shares_without_identity_are_refused(api, ask):
    api.put(claim("vm1-gpu0", result("v0", adminAccess=True), owner=pod("vm1")))
    assert refusal(ask, family=Refused).reason is Reason.ADMIN_ACCESS
    api.put(claim("vm1-gpu0", result("v0", shareID=SHARE), owner=pod("vm1")))
    assert refusal(ask, family=Refused).reason is Reason.SHARED_DEVICE


def test_more_devices_than_a_vm_can_have_are_refused(api, ask):
    item = pod("vm1", templates={"dravirt-a": "one", "dravirt-b": "two"})
    api.enter(item, "t1")
    for name in ("one", "two"):
        api.put(claim(name, *[result(f"v{n}") for n in range(17)], owner=item))
    assert refusal(ask, family=Refused).reason is Reason.WRONG_COUNT


# Who waits.


def test_an_incomplete_pool_is_waited_for(api, ask):
    api.put(resource_slice("slice-0", count=2))
    assert refusal(ask, family=Failed).reason is Reason.INCOMPLETE_POOL
    api.put(resource_slice("slice-1", mdevs(2, first=4), count=2))
    assert found(ask("t1")) == {"dravirt-gpu0": [("vgpu", "v0", UUIDS[0])]}


def test_what_is_not_allocated_or_not_reserved_is_waited_for(api, ask):
    api.put(claim("vm1-gpu0", owner=pod("vm1"), allocated=False))
    assert refusal(ask, family=Failed).reason is Reason.NOT_ALLOCATED
    api.put(claim("vm1-gpu0", owner=pod("vm1"), reserved=[]))
    assert refusal(ask, family=Failed).reason is Reason.NOT_RESERVED


# Whose turn it is.


@pytest.fixture
def three(api):
    """Three pods that use one claim; their tokens are t1 to t3."""
    pods = [pod(f"vm{n}", claims={"dravirt-gpu0": "shared"}) for n in (1, 2, 3)]
    for number, each in enumerate(pods, start=1):
        api.enter(each, f"t{number}")
    api.put(claim("shared", reserved=pods))
    return pods


def outcomes(answers):
    return ["devices" if not isinstance(each, DravirtError) else each.reason for each in answers]


def test_of_pods_that_share_a_claim_the_first_gets_the_device(three, ask):
    answers = ask("t1", "t2", "t3")
    assert outcomes(answers) == ["devices", Reason.CLAIM_HELD, Reason.CLAIM_HELD]
    assert "'shared' is held by pod 'vm1'" in answers[1].message
    assert isinstance(answers[1], Refused)


def test_each_gets_its_turn(api, three, ask):
    first, second, third = three
    api.put(pod("vm1", claims={"dravirt-gpu0": "shared"}, terminating=True))
    assert isinstance(refusal(ask, "t2"), Failed)
    api.put(pod("vm1", claims={"dravirt-gpu0": "shared"}, phase="Succeeded"))
    assert outcomes(ask("t2", "t3")) == ["devices", Reason.CLAIM_HELD]
    # It starts again, and comes last.
    again = pod("vm1", uid="again", claims={"dravirt-gpu0": "shared"})
    api.enter(again, "t4")
    api.put(claim("shared", reserved=[second, third, again]))
    assert outcomes(ask("t2", "t3", "t4")) == ["devices", Reason.CLAIM_HELD, Reason.CLAIM_HELD]
    api.remove(second)
    assert outcomes(ask("t3", "t4")) == ["devices", Reason.CLAIM_HELD]
    api.remove(third)
    assert outcomes(ask("t4", "t4")) == ["devices", "devices"]
    assert consumer(first) != consumer(again)


def test_a_generated_claim_that_another_pod_took_first_is_held(api, ask):
    thief = pod("thief")
    api.put(thief, claim("vm1-gpu0", owner=pod("vm1"), reserved=[thief, pod("vm1")]))
    assert "held by pod 'thief'" in refusal(ask, family=Refused).message


def test_a_long_line_of_pods_that_ended_is_not_read_to_its_end(api, three, ask):
    gone = [pod(f"gone{n}") for n in range(20)]
    api.put(claim("shared", reserved=[*gone, *three]))
    assert refusal(ask, family=Failed).reason is Reason.CLAIM_HELD
    assert len([each for each in api.asked if "/pods/gone" in each]) == 8


# When the API server does not answer as it should.


FAULTS = {
    "too many requests": {"status": 429, "headers": {"Retry-After": "1"}},
    "forbidden": {"status": 403, "message": "pods is forbidden"},
    "unauthorized": {"status": 401},
    "broken": {"status": 500},
    "unavailable": {"status": 503},
    "closed": {"close": True},
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("path", ["tokenreviews", "/pods/", "resourceclaims", "resourceslices"])
def test_a_fault_at_any_step_is_a_retry(api, ask, fault, path):
    api.fail({"path": path, **fault})
    error = refusal(ask, family=Failed)
    assert error.reason is Reason.API_UNAVAILABLE
    assert fault.get("message", "") in error.message
    assert "t1" not in error.message.split()
    api.fail()
    assert found(ask("t1")) == {"dravirt-gpu0": [("vgpu", "v0", UUIDS[0])]}


def test_no_server_is_a_retry(api, ask):
    api.url = "https://127.0.0.1:9"
    assert refusal(ask, family=Failed).reason is Reason.API_UNAVAILABLE


def test_a_slow_server_is_given_up_in_time(api, with_cluster, monkeypatch):
    monkeypatch.setattr(service, "SECONDS", SECONDS)
    api.fail({"path": "resourceclaims", "delay": 6})

    async def work(cluster):
        asked = AllocationService(lambda: cluster, dict, Gate())
        started = time.monotonic()
        with pytest.raises(Failed) as refused:
            await asked.answer("t1")
        return refused.value.reason, time.monotonic() - started

    reason, seconds = with_cluster(work)
    assert reason is Reason.API_UNAVAILABLE
    assert 3.5 < seconds < 5.5


def test_who_waited_too_long_leaves_room_for_others(api, with_cluster, monkeypatch):
    monkeypatch.setattr(service, "SECONDS", 0.3)
    api.fail({"path": "tokenreviews", "delay": 1})

    async def work(cluster):
        asked = AllocationService(lambda: cluster, dict, Gate(at_a_time=1, waiting=1))
        late = await asyncio.gather(asked.answer("t1"), asked.answer("t1"), asked.answer("t1"), return_exceptions=True)
        monkeypatch.setattr(service, "SECONDS", 60)
        api.fail()
        return late, await asyncio.gather(asked.answer("t1"), asked.answer("t1"))

    late, answers = with_cluster(work)
    assert sorted(each.reason for each in late) == [Reason.API_UNAVAILABLE, Reason.API_UNAVAILABLE, Reason.BUSY]
    assert len(answers) == 2


def test_a_server_without_dra_is_named(api, ask):
    api.write("versions", [])
    assert "serves no resource.k8s.io" in refusal(ask, family=Failed).message


# Bounds.


def test_slices_without_end_are_not_read(api, ask):
    api.clear("resourceslices")
    api.put(*[resource_slice(f"s{n}", [], count=9999) for n in range(PAGE * MAX_PAGES + 1)])
    error = refusal(ask, family=Failed)
    assert error.reason is Reason.API_UNAVAILABLE
    assert len(slice_lists(api)) <= MAX_PAGES


def test_many_at_once_are_answered_or_told_to_come_again(api, ask):
    answers = ask(*["t1"] * 40, gate=Gate(at_a_time=4, waiting=16))
    told = [each for each in answers if isinstance(each, DravirtError)]
    assert len(told) == 20
    assert {(type(each), each.reason) for each in told} == {(Failed, Reason.BUSY)}
    assert all(found(each) for each in answers if each not in told)
