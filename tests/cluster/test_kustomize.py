"""What users change in a kustomization of their own, however many are between it and `deploy/`, arrives everywhere."""

import re

import pytest

from cluster import manifests
from dra.intent import Mode

pytestmark = pytest.mark.cluster
SELF_MANAGED = manifests.DEPLOY / "overlays" / "self-managed"
DIGEST = f"sha256:{'5' * 64}"


def build(tmp_path, *levels, overlay="self-managed", components=()):
    """Render kustomizations on top of each other, the first of them on the overlay."""
    below = manifests.DEPLOY / "overlays" / overlay
    for number, level in enumerate(levels or ({},)):
        below = manifests.user_kustomization(tmp_path / str(number), below, () if number else components, level)
    return manifests.render(below)


def pod_of(objects):
    return manifests.find(objects, "Deployment")["spec"]["template"]


def option(objects, name):
    args = pod_of(objects)["spec"]["containers"][0]["args"]
    return args[args.index(name) + 1]


def texts(value):
    if isinstance(value, dict):
        return [text for key, each in value.items() for text in (key, *texts(each))]
    if isinstance(value, list):
        return [text for each in value for text in texts(each)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize(
    ("change", "image"),
    [
        ({"newName": "mirror.example/gpu/sidecar"}, "mirror.example/gpu/sidecar:0.1.0"),
        ({"newTag": "1.2.3"}, "dravirt-hooksidecar:1.2.3"),
        ({"digest": DIGEST}, f"dravirt-hooksidecar@{DIGEST}"),
        ({"newName": "mirror.example/s", "digest": DIGEST}, f"mirror.example/s@{DIGEST}"),
    ],
    ids=["name", "tag", "digest", "mirrored"],
)
@pytest.mark.parametrize("level", [0, 1, 2])
def test_the_sidecars_image_is_changed_wherever_it_stands(tmp_path, change, image, level):
    levels = [{}, {}, {}]
    levels[level] = {"images": [{"name": "dravirt-hooksidecar", **change}]}

    template = pod_of(build(tmp_path, *levels))

    assert [each["image"] for each in template["spec"]["initContainers"]] == [image]
    assert template["metadata"]["annotations"]["dravirt.io/sidecar-image"] == image
    assert [each["image"] for each in template["spec"]["containers"]] == ["dravirt-webhook:0.1.0"]


def test_the_webhooks_image_is_changed_and_names_of_objects_are_not(tmp_path):
    objects = build(tmp_path, {"images": [{"name": "dravirt-webhook", "newName": "r.example/w", "newTag": "2"}]})

    assert [each["image"] for each in pod_of(objects)["spec"]["containers"]] == ["r.example/w:2"]
    assert option(objects, "--service") == "dravirt-webhook"


NAMES = {"namespace": "gpu-system", "namePrefix": "acme-", "nameSuffix": "-x"}


@pytest.mark.parametrize("levels", [(NAMES,), ({}, NAMES), (*({key: value} for key, value in NAMES.items()),)])
@pytest.mark.parametrize("components", [(), manifests.COMPONENTS], ids=["plain", "components"])
def test_every_name_follows_prefix_suffix_and_namespace(tmp_path, levels, components):
    objects = build(tmp_path, *levels, components=components)

    names = {(each["kind"], each["metadata"]["name"]) for each in objects}
    assert [each for each in names if each[0] != "Namespace" and not re.fullmatch(r"acme-.*-x", each[1])] == []
    assert ("Namespace", "gpu-system") in names
    assert "dravirt-system" not in texts(objects)
    assert option(objects, "--service") == manifests.find(objects, "Service")["metadata"]["name"]
    assert option(objects, "--secret") == manifests.find(objects, "Secret")["metadata"]["name"]
    assert option(objects, "--webhooks") == "acme-dravirt-x"
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        registered = manifests.find(objects, kind)
        assert registered["metadata"]["name"] == "acme-dravirt-x"
        for each in registered["webhooks"]:
            service = each["clientConfig"]["service"]
            assert (service["namespace"], service["name"]) == ("gpu-system", "acme-dravirt-webhook-x")
            assert each["namespaceSelector"]["matchExpressions"][0]["values"] == ["kube-system", "gpu-system"]
    (rule,) = manifests.find(objects, "ClusterRole", "dravirt-certificates-x")["rules"]
    assert rule["resourceNames"] == ["acme-dravirt-x"]
    assert manifests.find(objects, "Role")["rules"][0]["resourceNames"] == ["acme-dravirt-webhook-tls-x"]
    policies = {name for kind, name in names if kind == "ValidatingAdmissionPolicy"}
    bound = {each["spec"]["policyName"] for each in objects if each["kind"] == "ValidatingAdmissionPolicyBinding"}
    assert bound == policies
    for each in objects:
        for subject in each.get("subjects", []):
            assert (subject["namespace"], subject["name"]) == ("gpu-system", "acme-dravirt-webhook-x")


@pytest.mark.parametrize("overlay", manifests.OVERLAYS)
@pytest.mark.parametrize("components", [(), *((each,) for each in manifests.COMPONENTS), manifests.COMPONENTS])
def test_overlays_and_components_make_one_configuration_together(tmp_path, overlay, components):
    objects = build(tmp_path, overlay=overlay, components=components)
    config = manifests.configuration(objects, tmp_path / "config")
    template, names = pod_of(objects)["spec"], {each["metadata"]["name"] for each in objects}
    kubevirt = "openshift-cnv" if overlay == "openshift" else "kubevirt"

    assert config.kubevirt_namespace == kubevirt
    policy = manifests.find(objects, "ValidatingAdmissionPolicy", "dravirt-injected-pods")
    assert policy["spec"]["variables"][0]["expression"] == f"'{config.kubevirt_controller}'"
    assert config.mode is (Mode.APPEND if "append" in components else Mode.PLACEHOLDER)
    assert ("dravirt-placeholders" in names) == ("append" not in components)
    assert (config.allocation_service is not None) == ("allocation-service" in components)
    bound = {each["roleRef"]["name"] for each in objects if each["kind"] == "ClusterRoleBinding"}
    assert ("dravirt-allocations" in bound) == ("allocation-service" in components)
    asks = overlay in {"self-managed", "single-node"} or "allocation-service" in components
    assert template["automountServiceAccountToken"] is asks


def test_a_single_node_has_one_replica_and_no_budget(tmp_path):
    objects = build(tmp_path, overlay="single-node")

    assert manifests.find(objects, "Deployment")["spec"]["replicas"] == 1
    assert "PodDisruptionBudget" not in {each["kind"] for each in objects}
