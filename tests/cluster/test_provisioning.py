"""The pod that KubeVirt makes to bind a VM's storage to a node: it must go where the device is, and take nothing."""

import pytest

from cluster import machines, watching
from cluster.controlplane import KUBEVIRT_CONTROLLER

pytestmark = pytest.mark.cluster


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


def test_it_is_scheduled_to_a_node_with_the_device_and_refers_to_no_claim(stack, dravirt, api, namespace):
    nodes = stack.handmade_nodes
    api.apply(machines.template(namespace, "vgpu", machines.request("time-sliced")))
    api.apply(machines.vm(namespace, asks="vgpu"))
    launcher = watching.launcher(api, namespace)
    vmi = api.apply(waiting_for_storage(namespace))

    controller = stack.control_plane.api(KUBEVIRT_CONTROLLER)
    pod = controller.create(provisioning_pod(launcher, vmi))

    assert [each["name"] for each in pod["spec"]["resourceClaims"]] == ["dravirt-gpu0"]
    (compute,) = pod["spec"]["containers"]
    assert "claims" not in compute["resources"]
    assert "dravirt.io/gpu" not in str(compute["resources"])
    assert watching.bound(api, pod)["spec"]["nodeName"] == nodes[0], "the one whose slice has devices"
