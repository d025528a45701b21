"""What a user with the role `edit` in one namespace tries: the policies, the webhooks and RBAC refuse it."""

import pytest
from cluster import machines, watching
from cluster.api import ApiError
from cluster.process import until

from install.installation import KINDS, REGISTRATION

pytestmark = pytest.mark.install

MARK = "dravirt.io/injected"
RBAC = "rbac.authorization.k8s.io"
OF_KUBEVIRT = {
    "apiGroups": ["kubevirt.io"],
    "resources": ["virtualmachines", "virtualmachineinstances"],
    "verbs": ["get", "list", "create", "update", "patch", "delete"],
}
OF_DRA = {**OF_KUBEVIRT, "apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims", "resourceclaimtemplates"]}


@pytest.fixture
def tenant(cluster, api, namespace):
    """The API server as a user who may edit in the test's namespace."""
    # KubeVirt's operator, which does not run here, adds its kinds to `edit` in this way.
    metadata = {"name": "edit-vms", "labels": {f"{RBAC}/aggregate-to-edit": "true"}}
    role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": [OF_KUBEVIRT, OF_DRA]}
    api.apply(role)
    api.apply(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "tenant", "namespace": namespace},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "tenant"}],
        }
    )
    user = cluster.control_plane.api()
    user.act_as("tenant")
    until(lambda: not refused(user.list, "kubevirt.io/v1", "VirtualMachine", namespace), seconds=30, what="the role")
    yield user
    api.delete(role)


def refused(call, *arguments, **options):
    """Return why a call is refused, "" where it is not."""
    try:
        call(*arguments, **options)
    except ApiError as error:
        return f"{error.code}: {error.message}"
    return ""


@pytest.fixture
def launched(api, installation, namespace):
    """The launcher pod of a VM of the tenant's, with its sidecar running."""
    api.apply(machines.template(namespace, "vgpu", machines.request("time-sliced")))
    api.apply(machines.vm(namespace, asks="vgpu"))
    return watching.running(api, watching.launcher(api, namespace))


def pod(namespace, *containers, **metadata):
    named = [{"name": each, "image": "registry.example/pause:1"} for each in (*containers, "mine")]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": namespace, **metadata},
        "spec": {"containers": named},
    }


@pytest.mark.parametrize("change", [{"labels": {MARK: "true"}}, {"annotations": {MARK: "{}"}}])
def test_the_marker_cannot_be_forged(tenant, installation, namespace, change):
    assert "are dravirt's" in refused(tenant.create, pod(namespace, **change))
    mine = tenant.create(pod(namespace))
    assert "are dravirt's" in refused(tenant.merge, mine, {"metadata": change})
    vmi = machines.vmi(namespace)
    vmi["metadata"] |= change
    assert "what dravirt marks pods with" in refused(tenant.create, vmi)


def test_no_other_image_can_be_named_for_the_sidecar(tenant, namespace, launched):
    asks = machines.devices({"name": "gpu0", "resourceClaimTemplateName": "vgpu", "image": "registry.example/mine:1"})
    assert "image" in refused(tenant.create, machines.vm(namespace, "vm2", asks=asks))
    assert "are dravirt's" in refused(tenant.create, pod(namespace, "dravirt-hook"))

    hook = {"name": "dravirt-hook", "image": "registry.example/mine:1"}
    path = tenant.path("v1", "Pod", namespace, launched["metadata"]["name"])
    current = tenant.request("GET", path)
    del current["metadata"]["resourceVersion"]  # the kubelet writes too
    for each in current["spec"]["initContainers"]:
        each.update(hook if each["name"] == "dravirt-hook" else {})
    assert "are dravirt's" in refused(tenant.request, "PUT", path, current)


@pytest.fixture
def other(api):
    """A namespace of somebody else's, with a claim."""
    item = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
    api.apply(item)
    api.apply(machines.claim("other", "theirs", machines.request("time-sliced")))
    yield
    api.delete(item)


def test_a_claim_of_another_namespace_cannot_be_had(tenant, api, other, namespace):
    for name in ("other/theirs", "../other/theirs"):
        asks = machines.devices({"name": "gpu0", "resourceClaimName": name})
        assert "resourceClaimName" in refused(tenant.create, machines.vm(namespace, asks=asks))
    assert refused(tenant.get, machines.CLAIMS, "ResourceClaim", "theirs", "other").startswith("403")

    # The name alone is one of the own namespace, whose claim is what the VM waits for.
    tenant.create(machines.vm(namespace, asks=machines.devices({"name": "gpu0", "resourceClaimName": "theirs"})))
    waiting = watching.launcher(api, namespace)
    assert "nodeName" not in waiting["spec"]
    tenant.create(machines.claim(namespace, "theirs", machines.request("time-sliced")))
    watching.bound(api, waiting)
    assert not api.get(machines.CLAIMS, "ResourceClaim", "theirs", "other").get("status")


@pytest.mark.parametrize(
    ("version", "kind", "name"),
    [
        ("v1", "Secret", "dravirt-webhook-tls"),
        ("v1", "ConfigMap", "dravirt-config"),
        ("apps/v1", "Deployment", "dravirt-webhook"),
    ],
)
def test_nothing_of_the_installation_can_be_read_or_changed(tenant, installation, version, kind, name):
    item = {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": installation.namespace}}

    assert refused(tenant.get, version, kind, name, installation.namespace).startswith("403")
    assert refused(tenant.list, version, kind, installation.namespace).startswith("403")
    assert refused(tenant.merge, item, {"metadata": {"labels": {"mine": "too"}}}).startswith("403")


def test_the_registration_cannot_be_changed(tenant, installation):
    for kind in KINDS:
        item = {"apiVersion": REGISTRATION, "kind": kind, "metadata": {"name": "dravirt"}}
        assert refused(tenant.merge, item, {"webhooks": None}).startswith("403")


def test_a_pod_that_pretends_to_be_a_launcher_gets_nothing(tenant, api, namespace, launched):
    owner = launched["metadata"]["ownerReferences"]
    metadata = {"labels": {"kubevirt.io": "virt-launcher"}, "annotations": {"dravirt.io/devices": "vgpu"}}

    denied = refused(tenant.create, pod(namespace, **metadata, ownerReferences=owner))
    assert 'admission webhook "pod.dravirt.io" denied the request' in denied
    assert "kubevirt-controller" in denied
    # Without a VMI as its owner nobody is asked, and nothing is injected.
    mine = tenant.create(pod(namespace, **metadata))
    assert "resourceClaims" not in mine["spec"]
    assert MARK not in mine["metadata"]["annotations"]
