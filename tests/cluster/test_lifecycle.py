"""Through the real KubeVirt: what becomes of a VM and of its devices while it is changed, restarted and deleted."""

import pytest

from cluster import handler, machines, watching
from cluster.api import ApiError
from cluster.process import until

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
def cluster(stack, dravirt, api, namespace):
    """KubeVirt, dravirt, nodes without a kubelet and a claim template `vgpu`."""
    _ = stack.handmade_nodes
    api.apply(machines.template(namespace, "vgpu", machines.request("time-sliced")))


def asks(value):
    return {"spec": {"template": {"metadata": {"annotations": {"dravirt.io/devices": value}}}}}


def test_a_change_while_the_vm_runs_is_said_to_wait_for_the_restart(api, boot_on_paper, namespace):
    vm, pod = boot_on_paper(machines.vm(namespace, asks="vgpu"))
    api.apply(machines.template(namespace, "mig", machines.request("mig-backed")))

    api.merge(vm, asks("mig"))

    assert [each for each in api.warnings if "takes effect at its next restart" in each]
    assert api.refresh(pod)["spec"] == watching.launcher(api, namespace)["spec"]


def test_without_the_annotation_the_next_start_has_no_device(api, boot_on_paper, namespace):
    vm, pod = boot_on_paper(machines.vm(namespace, asks_on_vm="vgpu"))

    changed = api.merge(vm, {"metadata": {"annotations": {"dravirt.io/devices": None}}})
    watching.restart(api, namespace)

    assert "dravirt.io/devices" not in changed["spec"]["template"]["metadata"].get("annotations", {})
    again = watching.replaced(api, pod)
    assert "resourceClaims" not in again["spec"]


def test_a_restart_takes_a_new_claim_and_gives_the_old_one_back(api, boot_on_paper, namespace):
    _, pod = boot_on_paper(machines.vm(namespace, asks="vgpu"))
    (before,) = watching.allocated(api, namespace)

    watching.restart(api, namespace)
    watching.bound(api, watching.replaced(api, pod))

    (after,) = watching.allocated(api, namespace)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]


def test_deleting_a_vm_deletes_its_pod_and_claim(api, boot_on_paper, namespace):
    vm, pod = boot_on_paper(machines.vm(namespace, asks="vgpu"))

    api.delete(vm)

    until(lambda: api.get("v1", "Pod", pod["metadata"]["name"], namespace) is None, seconds=30, what="pod gone")
    until(lambda: not api.list(machines.CLAIMS, "ResourceClaim", namespace), seconds=30, what="claim gone")


def test_a_vm_waits_for_a_device_and_starts_when_one_is_free(api, boot_on_paper, namespace):
    api.apply(machines.template(namespace, "gpu", machines.request("passthrough")))
    first, _ = boot_on_paper(machines.vm(namespace, "vm1", asks="gpu"))
    boot_on_paper(machines.vm(namespace, "vm2", asks="gpu"))

    api.apply(machines.vm(namespace, "vm3", asks="gpu"))
    waiting = watching.launcher(api, namespace, "vm3")
    message = watching.unschedulable(api, waiting)
    api.delete(first)

    assert "cannot allocate all claims" in message
    watching.bound(api, waiting)


def test_a_quota_of_the_device_class_is_an_event_and_the_vm_starts_after_release(api, boot_on_paper, namespace):
    quota = {"hard": {"time-sliced.deviceclass.resource.k8s.io/devices": "1"}}
    metadata = {"name": "vgpus", "namespace": namespace}
    watching.impose(api, {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": quota})
    first, _ = boot_on_paper(machines.vm(namespace, "vm1", asks="vgpu"))

    api.apply(machines.vm(namespace, "vm2", asks="vgpu"))
    waiting = watching.launcher(api, namespace, "vm2")
    message = watching.over_quota(api, namespace, "vgpus")
    api.delete(first)

    assert "exceeded quota: vgpus, requested: time-sliced.deviceclass.resource.k8s.io/devices=1" in message
    watching.bound(api, waiting, seconds=120)


def test_a_direct_claim_stays_when_its_vm_is_deleted(api, boot_on_paper, namespace):
    api.apply(machines.claim(namespace, "mine", machines.request("time-sliced")))
    vm, _ = boot_on_paper(machines.vm(namespace, asks=machines.devices({"name": "gpu0", "resourceClaimName": "mine"})))
    (claim,) = watching.allocated(api, namespace)
    assert claim["status"]["reservedFor"]

    api.delete(vm)

    def free():
        found = api.get(machines.CLAIMS, "ResourceClaim", "mine", namespace)
        return found and not found.get("status", {}).get("allocation")

    until(free, seconds=30, what="the claim free again")


@pytest.mark.parametrize("strategy", ["None", "LiveMigrateIfPossible", "LiveMigrate", "External"])
def test_eviction_follows_the_strategy_of_a_vm_that_cannot_migrate(stack, api, boot_on_paper, namespace, strategy):
    _, pod = boot_on_paper(machines.vm(namespace, asks="vgpu"))
    vmi = watching.vmi_of(api, namespace)
    # virt-handler writes this condition, for every VMI with a GPU; it does not run here.
    condition = {"type": "LiveMigratable", "status": "False", "reason": "HostDeviceNotLiveMigratable"}
    handler.set_condition(stack.handler, vmi, condition)
    stack.handler.merge(vmi, {"spec": {"evictionStrategy": strategy}})
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod["metadata"]["name"]}}
    path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}/eviction"

    if strategy in ("LiveMigrate", "External"):
        with pytest.raises(ApiError) as denied:
            api.request("POST", path, eviction)
        assert denied.value.code == 429
    else:
        api.request("POST", path, eviction)
        assert (api.refresh(pod) or {"metadata": {"deletionTimestamp": "gone"}})["metadata"]["deletionTimestamp"]


def bound_volume(api, namespace, name):
    """Make a volume claim and the volume that it is bound to: there is nothing behind it."""
    size = {"storage": "1Gi"}
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeMode": "Block"}
    spec = {
        **common,
        "capacity": size,
        "local": {"path": "/dev/none"},
        "claimRef": {"namespace": namespace, "name": name},
    }
    expressions = [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]
    spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    metadata = {"name": f"{namespace}-{name}"}
    api.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec})
    spec = {**common, "resources": {"requests": size}, "volumeName": metadata["name"]}
    metadata = {"name": name, "namespace": namespace}
    claim = api.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})
    until(lambda: api.refresh(claim)["status"].get("phase") == "Bound", seconds=30, what="the volume bound")


def test_the_pod_of_a_hotplugged_volume_is_left_alone(stack, api, gates, boot_on_paper, namespace):
    gates("HotplugVolumes")
    _, launcher = boot_on_paper(machines.vm(namespace, asks="vgpu"))
    # virt-handler writes it, and without it KubeVirt makes no such pod; it does not run here.
    stack.handler.merge(watching.vmi_of(api, namespace), {"status": {"selinuxContext": "none"}})
    bound_volume(api, namespace, "data")
    source = {"persistentVolumeClaim": {"claimName": "data", "hotpluggable": True}}
    path = f"/apis/subresources.kubevirt.io/v1/namespaces/{namespace}/virtualmachineinstances/vm1/addvolume"

    api.request("PUT", path, {"name": "data", "disk": {"disk": {"bus": "scsi"}}, "volumeSource": source})

    def attachment():
        return next(iter(api.list("v1", "Pod", namespace, "kubevirt.io=hotplug-disk")), None)

    pod = until(attachment, seconds=60, what="the volume's pod", failed=watching.reasons(api, namespace))
    assert pod["metadata"]["ownerReferences"][0]["uid"] == launcher["metadata"]["uid"]
    assert "resourceClaims" not in pod["spec"]
    assert "initContainers" not in pod["spec"]
    assert not [name for name in pod["metadata"].get("labels", {}) if name.startswith("dravirt.io")]
    assert len(api.list(machines.CLAIMS, "ResourceClaim", namespace)) == 1
