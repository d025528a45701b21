"""The pod that KubeVirt makes to bind a VM's storage to a node: it must go where the device is, and not keep it."""

import pytest

from cluster import fleet, machines, watching
from cluster.controlplane import KUBEVIRT_CONTROLLER
from cluster.process import until


def provisioning_pod(launcher, vmi):
    """The pod that KubeVirt would make for `vmi`, rendered as the launcher of another: no storage here makes it do so.

    Source: pkg/virt-controller/services/template.go, the annotation kubevirt.io/ephemeral-provisioning.
    """
    metadata = launcher["metadata"]
    annotations = {
        name: value for name, value in metadata["annotations"].items() if not name.startswith("dravirt.io/inj")
    }
    labels = {name: value for name, value in metadata["labels"].items() if not name.startswith("dravirt.io")}
    owner = {"name": vmi["metadata"]["name"], "uid": vmi["metadata"]["uid"]}
    labels |= {"vm.kubevirt.io/name": owner["name"], "kubevirt.io/created-by": owner["uid"]}
    asked = {"dravirt.io/gpu": "1"}
    container = {
        "name": "compute",
        "image": launcher["spec"]["containers"][0]["image"],
        "command": ["/bin/bash", "-c", "echo", "bound PVCs"],
        "resources": {"requests": {"cpu": "10m", **asked}, "limits": asked},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "provisioning",
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": {**annotations, "kubevirt.io/ephemeral-provisioning": "true"},
            "ownerReferences": [metadata["ownerReferences"][0] | owner],
        },
        "spec": {"containers": [container], "restartPolicy": "Never"},
    }


def waiting_for_storage(namespace):
    """A VMI that has no launcher yet, as one whose storage is not bound.

    KubeVirt takes the newest pod of a VMI for its launcher: it fails one that gets a provisioning pod after it.
    Source: pkg/controller/controller.go, CurrentVMIPod; pkg/virt-controller/watch/vmi/lifecycle.go, updateStatus.
    """
    vmi = machines.vmi(namespace, "waiting", asks="vgpu", domain={"devices": {"disks": [{"name": "data", "disk": {}}]}})
    vmi["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}]
    return vmi


@pytest.fixture
def create(stack, dravirt, api, namespace):
    """Create the provisioning pod of a VMI, as KubeVirt would."""

    def _create():
        api.apply(machines.template(namespace, "vgpu", machines.request("time-sliced")))
        api.apply(machines.vm(namespace, asks="vgpu"))
        launcher = watching.launcher(api, namespace)
        vmi = api.apply(waiting_for_storage(namespace))
        return stack.control_plane.api(KUBEVIRT_CONTROLLER).create(provisioning_pod(launcher, vmi))

    return _create


@pytest.mark.cluster
def test_it_is_scheduled_to_a_node_with_the_device_and_refers_to_no_claim(stack, api, create):
    nodes = stack.handmade_nodes

    pod = create()

    assert [each["name"] for each in pod["spec"]["resourceClaims"]] == ["dravirt-gpu0"]
    (compute,) = pod["spec"]["containers"]
    assert "claims" not in compute["resources"]
    assert "dravirt.io/gpu" not in str(compute["resources"])
    assert watching.bound(api, pod)["spec"]["nodeName"] == nodes[0], "the one whose slice has devices"


@pytest.mark.node
def test_on_a_node_it_runs_to_its_end_and_gives_the_device_back(stack, api, node, drivers, create):
    pod = watching.bound(api, create())
    until(lambda: api.refresh(pod)["status"]["phase"] in {"Succeeded", "Failed"}, seconds=90, what="the pod's end")

    ended = api.refresh(pod)["status"]
    assert ended["phase"] == "Succeeded"
    (claim,) = (each["resourceClaimName"] for each in ended["resourceClaimStatuses"])
    gone = lambda: api.get(machines.CLAIMS, "ResourceClaim", claim, pod["metadata"]["namespace"]) is None  # noqa: E731
    until(gone, seconds=60, what="the claim gone")
    log = stack.processes.logs / f"{fleet.DRIVER}.log"
    until(lambda: f"{claim}: unprepared" in log.read_text(), seconds=30, what="the device unprepared")
