"""Through the real KubeVirt: wherever the annotation is written, the launcher pod gets claims and sidecar."""

import json

import pytest

from cluster import machines, watching
from cluster.api import ApiError
from cluster.watching import KUBEVIRT

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
def cluster(stack, dravirt, api, namespace):
    """KubeVirt, dravirt, nodes without a kubelet and a claim template `vgpu`."""
    _ = stack.handmade_nodes
    api.apply(machines.template(namespace, "vgpu", machines.request("time-sliced")))


def assert_injected(pod, *names):
    """The pod has a claim, a sidecar before all others, and as many placeholders as devices, but asks for none."""
    spec = pod["spec"]
    assert [each["name"] for each in spec["resourceClaims"]] == [f"dravirt-{name}" for name in names]
    assert spec["initContainers"][0]["name"] == "dravirt-hook"
    compute = spec["containers"][0]
    assert compute["command"][compute["command"].index("--hook-sidecars") + 1] == "1"
    environment = {each["name"]: each.get("value") for each in compute["env"]}
    assert len(environment["MDEV_PCI_RESOURCE_DRAVIRT_IO_GPU"].split(",")) == len(names)
    for container in (compute, spec["initContainers"][0]):
        claims = [each["name"] for each in container["resources"]["claims"]]
        assert claims == [f"dravirt-{name}" for name in names]
    assert "dravirt.io/gpu" not in json.dumps(compute["resources"])
    assert pod["metadata"]["labels"]["dravirt.io/injected"] == "true"


def test_on_the_vm_itself_it_is_copied_to_the_template(api, namespace):
    created = api.apply(machines.vm(namespace, asks_on_vm="vgpu"))

    assert created["spec"]["template"]["metadata"]["annotations"]["dravirt.io/devices"] == "vgpu"
    assert_injected(watching.launcher(api, namespace), "gpu0")
    (placeholder,) = watching.vmi_of(api, namespace)["spec"]["domain"]["devices"]["gpus"]
    assert (placeholder["name"], placeholder["deviceName"]) == ("gpu0", "dravirt.io/gpu")


def test_on_the_template(api, namespace):
    api.apply(machines.vm(namespace, asks="vgpu"))

    assert_injected(watching.launcher(api, namespace), "gpu0")


def test_on_an_instancetype(api, namespace):
    metadata = {"name": "small-vgpu", "namespace": namespace}
    spec = {"cpu": {"guest": 1}, "memory": {"guest": "64Mi"}, "annotations": {"dravirt.io/devices": "vgpu"}}
    kind = "VirtualMachineInstancetype"
    api.apply({"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": kind, "metadata": metadata, "spec": spec})
    vm = machines.vm(namespace, instancetype={"kind": kind, "name": "small-vgpu"})
    vm["spec"]["template"]["spec"]["domain"] = {"devices": {}}
    api.apply(vm)

    assert_injected(watching.launcher(api, namespace), "gpu0")


def test_on_a_preference(api, namespace):
    metadata = {"name": "vgpu", "namespace": namespace}
    spec = {"annotations": {"dravirt.io/devices": "vgpu"}}
    kind = "VirtualMachinePreference"
    api.apply({"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": kind, "metadata": metadata, "spec": spec})
    api.apply(machines.vm(namespace, preference={"kind": kind, "name": "vgpu"}))

    assert_injected(watching.launcher(api, namespace), "gpu0")


def test_on_a_vmi_without_a_vm(api, namespace):
    api.apply(machines.vmi(namespace, asks="vgpu"))

    assert_injected(watching.launcher(api, namespace), "gpu0")


def test_on_a_replica_set_each_replica_has_a_claim_of_its_own(api, namespace):
    template = {"metadata": {"labels": {"app": "demo"}}, "spec": machines.vmi_spec()}
    template["metadata"]["annotations"] = {"dravirt.io/devices": "vgpu"}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "demo"}}, "template": template}
    metadata = {"name": "set", "namespace": namespace}
    kind = "VirtualMachineInstanceReplicaSet"
    api.apply({"apiVersion": KUBEVIRT, "kind": kind, "metadata": metadata, "spec": spec})

    claims = watching.allocated(api, namespace, count=2)

    devices = [each["device"] for claim in claims for each in claim["status"]["allocation"]["devices"]["results"]]
    assert len(set(devices)) == 2


def test_placeholders_that_the_owner_wrote_are_kept(api, namespace):
    placeholder = {"name": "gpu0", "deviceName": "dravirt.io/gpu"}
    api.apply(machines.vm(namespace, asks="vgpu", domain={"devices": {"gpus": [placeholder]}}))

    assert_injected(watching.launcher(api, namespace), "gpu0")
    assert len(watching.vmi_of(api, namespace)["spec"]["domain"]["devices"]["gpus"]) == 1


def test_count_two_has_one_claim_and_two_placeholders(api, namespace):
    api.apply(machines.template(namespace, "pair", machines.request("time-sliced", count=2)))
    asks = machines.devices({"name": "gpu", "resourceClaimTemplateName": "pair", "count": 2})
    api.apply(machines.vm(namespace, asks=asks))

    pod = watching.launcher(api, namespace)

    assert [each["name"] for each in pod["spec"]["resourceClaims"]] == ["dravirt-gpu-0"]
    names = [each["name"] for each in watching.vmi_of(api, namespace)["spec"]["domain"]["devices"]["gpus"]]
    assert names == ["gpu-0", "gpu-1"]


def test_a_vm_without_it_is_left_alone(api, namespace):
    api.apply(machines.vm(namespace))

    pod = watching.launcher(api, namespace)

    assert "resourceClaims" not in pod["spec"]
    assert not [name for name in pod["metadata"]["annotations"] if name.startswith("dravirt.io")]
    assert "dravirt-hook" not in json.dumps(pod["spec"])


def test_a_wrong_one_is_denied_with_the_field_and_the_remedy(api, namespace):
    asks = machines.devices({"name": "gpu0", "resourceClaimTemplateName": "vgpu", "count": 0})
    with pytest.raises(ApiError, match=r"dravirt\.io/devices\]\[0\]\.count: must be between 1 and 32, got 0"):
        api.apply(machines.vm(namespace, asks=asks))


def test_a_server_side_dry_run_answers_the_same_and_leaves_nothing(api, namespace):
    answered = api.apply(machines.vm(namespace, asks_on_vm="vgpu"), dry_run=True)

    assert answered["spec"]["template"]["metadata"]["annotations"]["dravirt.io/devices"] == "vgpu"
    assert api.get(KUBEVIRT, "VirtualMachine", "vm1", namespace) is None


def decisions(stack, namespace, path):
    """What dravirt answered to the API server's reviews of objects that were created in a namespace, in their order."""
    log = (stack.sandbox.logs / "dravirt-webhook.log").read_text().splitlines()
    reviews = [each for each in map(json.loads, log) if (each.get("namespace"), each.get("path")) == (namespace, path)]
    return [each["decision"] for each in reviews if each["operation"] == "CREATE"]


def test_it_is_asked_again_after_kubevirts_webhooks_and_then_adds_nothing(stack, api, namespace):
    api.apply(machines.vm(namespace, asks_on_vm="vgpu"))
    watching.launcher(api, namespace)

    assert decisions(stack, namespace, "/mutate/vm") == ["patched", "allowed"]
    assert decisions(stack, namespace, "/mutate/vmi") == ["patched", "allowed"]


def test_of_a_pod_to_which_kubevirt_adds_a_container_it_is_asked_again_and_then_adds_nothing(
    stack, api, gates, namespace
):
    gates("ContainerPathVolumes")
    # KubeVirt's pod webhook puts a virtiofs container beside compute, for a path that compute has by the time it looks.
    token = {"name": "token", "containerPath": {"path": "/var/run/secrets/kubernetes.io/serviceaccount"}}
    account = {"name": "account", "serviceAccount": {"serviceAccountName": "default"}}
    devices = {"disks": [{"name": "account", "disk": {}}], "filesystems": [{"name": "token", "virtiofs": {}}]}
    vm = machines.vm(namespace, asks="vgpu", domain={"devices": devices})
    vm["spec"]["template"]["spec"]["volumes"] = [account, token]

    api.apply(vm)
    pod = watching.launcher(api, namespace)

    assert "virtiofs-token" in [each["name"] for each in pod["spec"]["containers"]]
    assert decisions(stack, namespace, "/mutate/pod") == ["patched", "allowed"]
    assert_injected(pod, "gpu0")
    assert [each["name"] for each in pod["spec"]["initContainers"]].count("dravirt-hook") == 1


@pytest.mark.parametrize("label", [None, "virt-launcher", "hotplug-disk"])
def test_a_pod_that_is_no_launcher_of_a_vmi_is_left_alone(api, namespace, label):
    container = {"name": "compute", "image": "none", "resources": {"limits": {"dravirt.io/gpu": "1"}}}
    metadata = {"name": "other", "namespace": namespace, "annotations": {"dravirt.io/devices": "vgpu"}}
    metadata["labels"] = {} if label is None else {"kubevirt.io": label}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}

    created = api.create(pod)

    assert "resourceClaims" not in created["spec"]
    assert "initContainers" not in created["spec"]
    assert created["spec"]["containers"][0]["resources"]["limits"] == {"dravirt.io/gpu": "1"}
    assert created["metadata"]["annotations"] == metadata["annotations"]
