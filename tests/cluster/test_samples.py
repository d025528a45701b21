"""The samples choose the devices that they say: their classes and templates, by a real scheduler, among others."""

import pytest
import yaml

from cluster import manifests, watching

pytestmark = pytest.mark.cluster
SAMPLES = manifests.DEPLOY / "samples"
PUBLISHED = {
    "gpu.example.com": {
        "whole": {"type": "gpu"},  # (no profile: an expression that asks for it would fail)
        "a100-mig": {"type": "vgpu", "profile": "GRID A100-1-5C"},
        "a40-1q": {"type": "vgpu", "profile": "NVIDIA A40-1Q"},
        "a40-2q": {"type": "vgpu", "profile": "NVIDIA A40-2Q"},
        "h200-mig": {"type": "vgpu", "profile": "NVIDIA H200X-1-18C"},
    },
    "gpu.nvidia.com": {
        "gpu-0": {"type": "gpu"},
        "gpu-vfio-0": {"type": "vfio", "deviceID": "0x20b0"},
        **{f"gpu-vfio-{index}": {"type": "vfio", "deviceID": "0x2235"} for index in (1, 2, 3)},
    },
    "gpu.amd.com": {"gpu-0-128": {"type": "amdgpu"}, "gpu-vfio-3": {"type": "vfio"}},
}


def sample(name, kind):
    return [each for each in yaml.safe_load_all((SAMPLES / f"{name}.yaml").read_text()) if each["kind"] == kind]


@pytest.fixture(scope="module")
def published(stack, api):
    """Devices of three drivers on a node, and the classes of the samples."""
    node = stack.handmade_nodes[1]
    made = []
    for driver, devices in PUBLISHED.items():
        listed = [
            {"name": name, "attributes": {key: {"string": value} for key, value in attributes.items()}}
            for name, attributes in devices.items()
        ]
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": listed}
        item = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": f"samples-{driver}"}}
        made.append(api.apply({**item, "spec": spec}))
    for name in ("nvidia-passthrough", "nvidia-vgpu", "amd"):
        made += [api.apply(each) for each in sample(name, "DeviceClass")]
    yield
    for each in made:
        api.delete(each)


def ask(api, namespace, template, name="p"):
    claim = {"name": "c", "resourceClaimTemplateName": template}
    container = {"name": "c", "image": "registry.example/c", "resources": {"claims": [{"name": "c"}]}}
    spec = {"containers": [container], "resourceClaims": [claim]}
    metadata = {"name": name, "namespace": namespace}
    return api.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def place(api, namespace, name):
    for each in sample(name, "ResourceClaimTemplate"):
        api.apply({**each, "metadata": {**each["metadata"], "namespace": namespace}})


@pytest.mark.parametrize(
    ("name", "template", "device"),
    [
        ("nvidia-vgpu", "a40-2q", "a40-2q"),
        ("nvidia-vgpu", "h200-1-18c", "h200-mig"),
        ("nvidia-passthrough", "whole-a40", "gpu-vfio-1"),
        ("amd", "amd-gpu", "gpu-vfio-3"),
    ],
)
@pytest.mark.usefixtures("published")
def test_a_template_gets_the_device_that_it_is_named_for(api, namespace, name, template, device):
    place(api, namespace, name)
    ask(api, namespace, template)

    (claim,) = watching.allocated(api, namespace)
    allocation = claim["status"]["allocation"]["devices"]
    assert [each["device"] for each in allocation["results"]] == [device]
    if name == "nvidia-passthrough":
        parameters = allocation["config"][0]["opaque"]["parameters"]
        assert parameters["iommu"] == {"backendPolicy": "LegacyOnly", "enableAPIDevice": True}


@pytest.mark.parametrize(
    ("device_class", "devices"),
    [("vgpu-time-sliced", {"a40-1q", "a40-2q"}), ("vgpu-mig", {"a100-mig", "h200-mig"})],
)
def test_a_class_has_all_of_its_kind_and_no_other(api, published, namespace, device_class, devices):
    exactly = {"deviceClassName": device_class, "allocationMode": "All"}
    spec = {"spec": {"devices": {"requests": [{"name": "all", "exactly": exactly}]}}}
    metadata = {"name": "all", "namespace": namespace}
    api.apply({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec})
    ask(api, namespace, "all")

    (claim,) = watching.allocated(api, namespace)
    assert {each["device"] for each in claim["status"]["allocation"]["devices"]["results"]} == devices


def test_the_quota_lets_a_pod_that_is_too_many_wait_and_says_so(api, published, namespace):
    place(api, namespace, "nvidia-passthrough")
    (quota,) = sample("quota", "ResourceQuota")
    watching.impose(api, {**quota, "metadata": {**quota["metadata"], "namespace": namespace}})
    for number in range(3):
        ask(api, namespace, "whole-a40", f"p{number}")

    watching.allocated(api, namespace, count=2)
    message = watching.over_quota(api, namespace, "gpus")
    assert "exceeded quota: gpus, requested: passthrough-a40.deviceclass.resource.k8s.io/devices=1" in message
    assert len(api.list("resource.k8s.io/v1", "ResourceClaim", namespace)) == 2
