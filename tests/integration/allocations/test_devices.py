"""What a sidecar learns of devices that the real scheduler allocated, from drivers that write nothing in the pod."""

import pytest
from cluster import machines
from integration.allocations.site import found

from dra.errors import Failed, Refused
from dra.reasons import Reason
from webhook.kubedra import VERSIONS

UUIDS = [f"3f0e2a54-6c1d-4b7a-9f33-{number:012x}" for number in range(8)]
DRIVER, OTHER = "vgpu.allocations.example", "pf.allocations.example"
GPU0 = {"resourceClaimTemplateName": "t"}


def mdev(number, **more):
    return {"name": f"v{number}", "attributes": {"mdevUUID": {"string": UUIDS[number]}}, **more}


def pci(number):
    address = {"string": f"0000:{0x65 + number:02x}:00.0"}
    return {"name": f"p{number}", "attributes": {"resource.kubernetes.io/pciBusID": address}}


def answer_for(site, pod):
    """Return the answer, which is the same in each version that our code may use."""
    token = site.token(pod)
    answer = site.ask(token)
    for version in VERSIONS:
        assert site.ask_in(token, version) == answer, version
    return answer


def test_a_claim_from_a_template(site):
    site.publish(DRIVER, *map(mdev, range(4)))
    site.template("t", machines.request(DRIVER))
    pod = site.pod("vm1", gpu0=GPU0)
    (claim,) = site.claims_of(pod)
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    number = int(result["device"].removeprefix("v"))
    assert found(answer_for(site, pod)) == {"dravirt-gpu0": [("gpu", f"v{number}", UUIDS[number])]}


def test_a_direct_claim_with_two_devices(site):
    site.publish(DRIVER, *map(mdev, range(2)))
    site.claim("mine", machines.request(DRIVER, count=2))
    pod = site.pod("vm1", gpu0={"resourceClaimName": "mine"})
    (devices,) = found(answer_for(site, pod)).values()
    assert sorted(devices) == [("gpu", "v0", UUIDS[0]), ("gpu", "v1", UUIDS[1])]


def test_all_devices_of_a_class(site):
    site.publish(DRIVER, *map(mdev, range(3)))
    site.template("t", {"name": "all", "exactly": {"deviceClassName": DRIVER, "allocationMode": "All"}})
    (devices,) = found(answer_for(site, site.pod("vm1", gpu0=GPU0))).values()
    assert sorted(devices) == [("all", f"v{number}", UUIDS[number]) for number in range(3)]


def test_the_first_alternative_that_is_there(site):
    site.publish(DRIVER, mdev(0))
    site.publish(OTHER, pci(0))
    large = {"name": "large", "deviceClassName": DRIVER, "count": 2}
    small = {"name": "small", "deviceClassName": OTHER}
    site.template("t", {"name": "main", "firstAvailable": [large, small]})
    assert found(answer_for(site, site.pod("vm1", gpu0=GPU0))) == {
        "dravirt-gpu0": [("main/small", "p0", "0000:65:00.0")]
    }


def test_two_requests_of_two_drivers_in_two_claims(site):
    site.publish(DRIVER, mdev(0), mdev(1))
    site.publish(OTHER, pci(0), pci(1))
    site.template("t", machines.request(DRIVER, "vgpu"), machines.request(OTHER, "pf"))
    site.claim("mine", machines.request(DRIVER, "second"))
    pod = site.pod("vm1", gpu0=GPU0, gpu1={"resourceClaimName": "mine"})
    answer = found(answer_for(site, pod))
    assert [request for request, _, _ in answer["dravirt-gpu0"]] == ["vgpu", "pf"]
    taken = {device for of in answer.values() for _, device, _ in of}
    assert {"v0", "v1"} < taken
    assert len(taken) == 3


def test_partitionable_devices_beside_their_counters(site):
    counters = [{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}]
    uses = [{"counterSet": "gpu-0", "counters": {"memory": {"value": "40Gi"}}}]
    site.publish(DRIVER, *[mdev(number, consumesCounters=uses) for number in range(4)], shared=counters)
    site.template("t", machines.request(DRIVER, count=2))
    (devices,) = found(answer_for(site, site.pod("vm1", gpu0=GPU0))).values()
    assert len(devices) == 2
    assert all(identity == UUIDS[int(device[1:])] for _, device, identity in devices)


def told(claim, number=0, **data):
    """Return a driver's entry in the claim's status for its device."""
    result = claim["status"]["allocation"]["devices"]["results"][number]
    key = {field: result[field] for field in ("driver", "pool", "device", "shareID") if field in result}
    return {**key, "data": data}


def test_an_mdev_made_at_prepare_stands_in_the_status_alone(site):
    site.publish(DRIVER, {"name": "slot-0", "attributes": {"profile": {"string": "A100-1-5C"}}})
    site.template("t", machines.request(DRIVER))
    pod = site.pod("vm1", gpu0=GPU0)
    assert found(answer_for(site, pod)) == {"dravirt-gpu0": [("gpu", "slot-0", None)]}
    (claim,) = site.claims_of(pod)
    site.tell(claim, told(claim, mdevUUID=UUIDS[7]))
    assert found(answer_for(site, pod)) == {"dravirt-gpu0": [("gpu", "slot-0", UUIDS[7])]}


def test_a_share_is_known_by_the_status_and_refused_by_the_slice(site):
    capacity = {"memory": {"value": "80Gi", "requestPolicy": {"default": "10Gi", "validValues": ["10Gi"]}}}
    site.publish(DRIVER, mdev(0, allowMultipleAllocations=True, capacity=capacity))
    site.template("t", machines.request(DRIVER))
    first, second = site.pod("vm1", gpu0=GPU0), site.pod("vm2", gpu0=GPU0)
    with pytest.raises(Refused) as refused:
        site.ask(site.token(first))
    assert refused.value.reason is Reason.SHARED_DEVICE
    for number, pod in enumerate((first, second), start=5):
        (claim,) = site.claims_of(pod)
        site.tell(claim, told(claim, mdevUUID=UUIDS[number]))
        assert found(site.ask(site.token(pod))) == {"dravirt-gpu0": [("gpu", "v0", UUIDS[number])]}


def test_admin_access_is_refused(site):
    site.publish(DRIVER, mdev(0))
    labels = {"resource.kubernetes.io/admin-access": "true"}
    item = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": site.namespace}}
    site.api.merge(item, {"metadata": {"labels": labels}})
    request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "adminAccess": True}}
    site.template("t", request)
    with pytest.raises(Refused) as refused:
        site.ask(site.token(site.pod("vm1", gpu0=GPU0)))
    assert refused.value.reason is Reason.ADMIN_ACCESS


def test_a_pool_that_is_published_anew_is_waited_for(site):
    site.publish(DRIVER, mdev(0))
    site.template("t", machines.request(DRIVER))
    pod = site.pod("vm1", gpu0=GPU0)
    (slice_,) = [each for each in site.made if each["kind"] == "ResourceSlice"]
    slice_["spec"]["pool"] |= {"generation": 2, "resourceSliceCount": 2}
    site.api.apply(slice_)
    with pytest.raises(Failed) as failed:
        site.ask(site.token(pod))
    assert failed.value.reason is Reason.INCOMPLETE_POOL
    site.make("ResourceSlice", f"{DRIVER}-more", {**slice_["spec"], "devices": [mdev(1)]})
    assert found(site.ask(site.token(pod))) == {"dravirt-gpu0": [("gpu", "v0", UUIDS[0])]}
