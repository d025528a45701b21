"""A cluster that serves one version of resource.k8s.io alone: the same answers as with all three.

The API server comes back with the others switched off, as after an upgrade; the service that ran before goes on.
"""

import pytest
from cluster import machines
from cluster.apiserver import VERSIONS
from cluster.process import until
from integration.allocations.site import found
from integration.allocations.test_devices import UUIDS, mdev, pci, told

from dra.reasons import Reason

VGPU, PF, PARTS, SHARES, SLOTS = (f"{name}.versions.example" for name in ("vgpu", "pf", "parts", "shares", "slots"))
CAPACITY = {"memory": {"value": "80Gi", "requestPolicy": {"default": "10Gi", "validValues": ["10Gi"]}}}


@pytest.fixture
def pods(site):
    """A pod with claims of all kinds, one whose share of a device its driver tells, and one whose it does not tell."""
    counters = [{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}]
    uses = [{"counterSet": "gpu-0", "counters": {"memory": {"value": "40Gi"}}}]
    site.publish(VGPU, *map(mdev, range(4)))
    site.publish(PF, pci(0), pci(1), pci(2))
    site.publish(PARTS, *[mdev(number, consumesCounters=uses) for number in range(4, 8)], shared=counters)
    site.publish(SHARES, mdev(0, allowMultipleAllocations=True, capacity=CAPACITY))
    site.publish(SLOTS, {"name": "slot-0", "attributes": {"profile": {"string": "A100-1-5C"}}})
    site.template("both", machines.request(VGPU, "vgpu"), machines.request(PF, "pf"))
    site.claim("pair", machines.request(VGPU, "two", count=2))
    site.template("parts", machines.request(PARTS, "parts", count=2))
    large = {"name": "large", "deviceClassName": VGPU, "count": 9}
    small = {"name": "small", "deviceClassName": PF}
    site.template("any", {"name": "main", "firstAvailable": [large, small]})
    site.template("all", {"name": "all", "exactly": {"deviceClassName": SLOTS, "allocationMode": "All"}})
    site.template("share", machines.request(SHARES))
    claims = {name: {"resourceClaimTemplateName": name} for name in ("both", "parts", "any", "all")}
    whole = site.pod("vm1", pair={"resourceClaimName": "pair"}, **claims)
    known, unknown = (site.pod(name, gpu0={"resourceClaimTemplateName": "share"}) for name in ("vm2", "vm3"))
    (slot,) = [each for each in site.claims_of(whole) if _drivers(each) == {SLOTS}]
    (share,) = site.claims_of(known)
    site.tell(slot, told(slot, mdevUUID=UUIDS[6]))
    site.tell(share, told(share, mdevUUID=UUIDS[7]))
    return [site.token(each) for each in (whole, known, unknown)]


def _drivers(claim):
    return {each["driver"] for each in claim["status"]["allocation"]["devices"]["results"]}


def _reason(site, token):
    """Return why there is no answer, None while the API server does not serve."""
    reason = site.outcome(token).reason
    return None if reason is Reason.API_UNAVAILABLE else reason


@pytest.mark.timeout(900)
def test_each_version_alone_gives_the_same(site, pods, api_server):
    whole, known, unknown = pods
    before = site.ask(whole), site.ask(known)
    assert {name: len(of) for name, of in before[0].items()} == {
        "dravirt-pair": 2, "dravirt-both": 2, "dravirt-parts": 2, "dravirt-any": 1, "dravirt-all": 1,
    }  # fmt: skip
    assert found(before[0])["dravirt-all"] == [("all", "slot-0", UUIDS[6])]
    assert found(before[1]) == {"dravirt-gpu0": [("gpu", "v0", UUIDS[7])]}
    for version in VERSIONS[::-1]:
        with api_server.serving_only(version):
            assert (site.answered(whole), site.answered(known)) == before, version
            assert site.answered(whole, *VERSIONS) == before[0], version
            assert until(lambda: _reason(site, unknown), seconds=60, what="a reason") is Reason.SHARED_DEVICE, version
