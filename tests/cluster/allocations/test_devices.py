"""Whatever was allocated, the domain gets it: as the real scheduler, kubelet and API server tell it, over TLS."""

from dataclasses import dataclass

import pytest

from cluster import fleet, machines, watching
from cluster.apiserver import ApiServer
from cluster.controlplane import WEBHOOK
from cluster.handler import attached

pytestmark = [pytest.mark.node, pytest.mark.usefixtures("silent")]
ALL = {"name": "all", "exactly": {"deviceClassName": "passthrough", "allocationMode": "All"}}


@dataclass(frozen=True)
class Case:
    """What a claim asks for, and the entries of the annotation on it, in the order of the requests."""

    requests: tuple
    entries: tuple = ({"name": "gpu0"},)
    is_direct: bool = False

    def start(self, site):
        """Start a VM with this claim; return its pod and domain."""
        make, key = (
            (site.claim, "resourceClaimName") if self.is_direct else (site.template, "resourceClaimTemplateName")
        )
        make("t", *self.requests)
        return site.boot(asks=machines.devices(*({**each, key: "t"} for each in self.entries)))


CASES = {
    "template": Case((machines.request("time-sliced"),)),
    "direct": Case((machines.request("vf"),), is_direct=True),
    "count": Case((machines.request("vf", count=2),), ({"name": "gpu", "count": 2},)),
    "count-mdev": Case((machines.request("mig-backed", count=2),), ({"name": "gpu", "count": 2},)),
    "all": Case((ALL,), ({"name": "gpu", "count": 2},)),
    "first-available": Case((machines.first_available("gpu", "mig-backed", "vf"),)),
    "second-available": Case((machines.first_available("gpu", "shared", "vf"),)),
    "two-requests": Case(
        (machines.request("time-sliced", "one"), machines.request("mig-backed", "two")),
        ({"name": "a", "request": "one"}, {"name": "b", "request": "two"}),
    ),
    "two-drivers": Case(
        (machines.request("time-sliced", "one"), machines.request("other", "two")),
        ({"name": "a", "request": "one"}, {"name": "b", "request": "two"}),
    ),
    "two-drivers-direct": Case(
        (machines.request("other", "one", count=2), machines.request("vf", "two")),
        ({"name": "a", "request": "one", "count": 2}, {"name": "b", "request": "two"}),
        is_direct=True,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_vm_gets_the_devices_that_were_allocated(site, case):
    pod, definition = case.start(site)

    assert list(attached(definition).values()) == site.identities()
    assert site.sources(pod) == {"service"}


@pytest.mark.parametrize(("case", "request_"), [("first-available", "gpu/mig-backed"), ("second-available", "gpu/vf")])
def test_of_alternatives_it_is_the_one_that_the_scheduler_chose(site, case, request_):
    _, definition = CASES[case].start(site)

    ((request, identity),) = site.allocated()
    assert request == request_
    assert attached(definition) == {"gpu0": identity}


@pytest.mark.parametrize(("kind", "case"), [("mig-backed", "count-mdev"), ("vf", "count")])
def test_parts_of_a_gpu_that_only_their_status_or_only_their_slice_tells(site, kind, case):
    with site.drivers.changed(slices=fleet.partitioned(site.drivers.slices(), kind, parts=2)):
        pod, definition = CASES[case].start(site)

        assert list(attached(definition).values()) == site.identities()
        assert site.sources(pod) == {"service"}
        # The GPU is full: the scheduler counted both against it.
        site.template("more", machines.request(kind))
        watching.unschedulable(site.api, site.apply("vm2", asks="more"))


# A device that several claims have shares of.


def test_a_share_is_the_one_that_its_claim_tells(site):
    uuids = [each.identity for each in fleet.fleet() if each.kind == "time-sliced"]
    card = {"card": {"shares": [{"mdevUUID": uuid} for uuid in uuids]}}
    site.template("share", machines.request("shared"))
    with site.drivers.changed(slices=fleet.in_shares(site.drivers.slices(), "card"), devices=card):
        booted = [site.boot(name, asks="share") for name in ("vm1", "vm2")]

    assert [attached(each) for _, each in booted] == [{"gpu0": uuids[0]}, {"gpu0": uuids[1]}]
    for pod, definition in booted:
        (claim,) = _reserved_for(site, pod)
        (told,) = claim["status"]["devices"]
        assert told["shareID"] == claim["status"]["allocation"]["devices"]["results"][0]["shareID"]
        assert attached(definition) == {"gpu0": told["data"]["mdevUUID"]}
        assert site.sources(pod) == {"service"}


def test_a_share_that_only_its_slice_tells_is_refused(site):
    uuid = next(each.identity for each in fleet.fleet() if each.kind == "time-sliced")
    site.template("share", machines.request("shared"))
    with site.drivers.changed(slices=fleet.in_shares(site.drivers.slices(), "card", mdevUUID=uuid)):
        pod, definition = site.boot(asks="share")

    assert "shared_device" in definition.error
    assert "/card" in definition.error
    assert not site.said(pod, "devices found")


def _reserved_for(site, pod):
    uid = pod["metadata"]["uid"]
    claims = site.api.list(machines.CLAIMS, "ResourceClaim", site.namespace)
    return [each for each in claims if uid in [of["uid"] for of in each["status"].get("reservedFor", ())]]


# Versions of resource.k8s.io.


def test_each_version_that_the_service_finds_alone_gives_the_same(site):
    """Kubelet and scheduler need v1: the service alone asks an API server of the cluster that has one version only."""
    site.template("both", machines.request("time-sliced", "b"), machines.request("other", "c", count=2))
    site.claim("pair", machines.request("vf", "a", count=2))
    entries = [
        {"name": "a", "resourceClaimName": "pair", "count": 2},
        {"name": "b", "resourceClaimTemplateName": "both", "request": "b"},
        {"name": "c", "resourceClaimTemplateName": "both", "request": "c", "count": 2},
    ]
    with site.drivers.changed(slices=fleet.partitioned(site.drivers.slices(), "vf", parts=2)):
        pod, definition = site.boot(asks=machines.devices(*entries))
        before = attached(definition)
        assert list(before.values()) == site.identities()
        for version in ("v1beta1", "v1beta2", "v1"):
            with ApiServer(site.stack).beside(version, WEBHOOK) as kubeconfig, site.service.asking(kubeconfig):
                assert _asked_anew(site, pod) == before, version


def _asked_anew(site, pod):
    """Let the sidecar of a pod forget its devices and ask again; return what the domain gets then."""
    before = site.said(pod, "devices found")[-1]["time"]
    (site.stack.node.volume(pod, "dravirt-state") / "devices.json").unlink()
    pod = site.kill_sidecar(pod)
    assert site.said(pod, "devices found")[-1]["time"] > before
    assert site.sources(pod) == {"service"}
    return attached(site.define(pod))
