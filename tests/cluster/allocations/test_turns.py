"""One claim, several VMs: one has the device, the others are told who, and each gets its turn."""

import pytest

from cluster import machines, watching
from cluster.controlplane import KUBEVIRT_CONTROLLER
from cluster.handler import attached

pytestmark = [pytest.mark.node, pytest.mark.usefixtures("silent")]
ASKS = machines.devices({"name": "gpu0", "resourceClaimName": "mine"})


@pytest.fixture(autouse=True)
def claim(site):
    site.claim("mine", machines.request("time-sliced"))


def test_of_two_vms_at_once_one_has_the_device_and_a_restart_hands_it_on(site):
    vms = [site.api.apply(machines.vm(site.namespace, name, asks=ASKS)) for name in ("one", "two")]
    names = [each["metadata"]["name"] for each in vms]
    pods = {name: site.running(watching.launcher(site.api, site.namespace, name)) for name in names}

    errors = {name: site.define(pod).error for name, pod in pods.items()}
    (first,) = [name for name, error in errors.items() if error is None]
    (second,) = errors.keys() - {first}
    reserved = site.api.get(machines.CLAIMS, "ResourceClaim", "mine", site.namespace)["status"]["reservedFor"]
    assert reserved[0]["name"] == pods[first]["metadata"]["name"]
    assert is_told_who(errors[second], pods[first])
    device = {"gpu0": site.identities()[0]}
    assert attached(site.define(pods[first])) == device

    # The one that has it restarts: now it is the other's, and the first waits.
    watching.restart(site.api, site.namespace, first)
    assert attached(site.defined(pods[second])) == device
    again = site.running(watching.replaced(site.api, pods[first]))
    assert is_told_who(site.define(again).error, pods[second])

    # The other stops: it is the first one's again.
    site.api.delete(next(each for each in vms if each["metadata"]["name"] == second))
    assert attached(site.defined(again)) == device


def is_told_who(error, holder):
    return "claim_held" in error and f"held by pod '{holder['metadata']['name']}'" in error


def test_a_migration_target_is_told_who_has_the_device(site):
    """The target is made by hand, by the rule of virt-controller, which makes none for a VM that cannot migrate."""
    source, definition = site.boot(asks=ASKS)
    device = {"gpu0": site.identities()[0]}
    assert attached(definition) == device

    target = site.running(migration_target(site, source))
    assert is_told_who(site.define(target).error, source)
    assert attached(site.define(source)) == device

    site.api.delete(target, now=True)
    assert attached(site.define(source)) == device


def migration_target(site, source):
    """Create a copy of a launcher pod with the label of a target; KubeVirt would keep it off the source's node.

    Source: KubeVirt pkg/virt-controller/watch/migration/migration.go, createTargetPod.
    """
    metadata = {key: source["metadata"][key] for key in ("annotations", "labels", "ownerReferences", "namespace")}
    metadata["labels"] = {**metadata["labels"], "kubevirt.io/migrationJobUID": "22222222-0000-4000-8000-000000000000"}
    metadata["generateName"] = "virt-launcher-vm1-"
    spec = {key: value for key, value in source["spec"].items() if key != "nodeName"}
    api = site.stack.control_plane.api(KUBEVIRT_CONTROLLER)
    pod = api.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return {"apiVersion": "v1", "kind": "Pod", **pod}
