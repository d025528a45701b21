"""What the policies of `deploy/` refuse on their own: marks that are not dravirt's, VMIs that it was not asked about.

They are in force for the length of this module; all objects are created as a dry run.
"""

from copy import deepcopy

import pytest

from cluster import machines, manifests
from cluster.api import ApiError, denial
from cluster.controlplane import KUBEVIRT_CONTROLLER
from cluster.process import until

pytestmark = pytest.mark.cluster
MARK = "dravirt.io/injected"
VALUE = '{"version": "0.1.0", "mode": "placeholder", "devices": ["gpu0"]}'
SKIPPED_BY_WEBHOOKS = "kube-system"
"""A namespace whose objects no webhook of dravirt sees, as when it is not registered."""


@pytest.fixture(scope="module")
def policies(stack, api):
    """The policies, once the API server goes by them."""
    _ = stack.kubevirt
    rendered = manifests.render(manifests.DEPLOY / "overlays" / "self-managed")
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    applied = [api.apply(each) for each in rendered if each["kind"] in kinds]
    assert len(applied) == 6
    vmi = machines.vmi(SKIPPED_BY_WEBHOOKS, asks="vgpu")
    for item in (pod("default", annotations={MARK: VALUE}), marked(vmi), vmi):
        until(lambda item=item: "denied request" in denial(api, item), seconds=30, what="the policies in force")
    yield [each for each in applied if each["kind"] == kinds[0]]
    for each in reversed(applied):
        api.delete(each)
    # (where dravirt's webhook is registered, that refuses it still)
    forgery = pod("default", annotations={MARK: VALUE})
    until(lambda: "denied request" not in denial(api, forgery), seconds=30, what="the policies gone")


@pytest.fixture
def controller(stack, policies):
    """The API server, as KubeVirt's controller."""
    return stack.control_plane.api(KUBEVIRT_CONTROLLER)


def pod(namespace, name="p", containers=("c",), init_containers=(), **metadata):
    def named(names):
        return [{"name": each, "image": "registry.example/c"} for each in names]

    spec = {"containers": named(containers), "initContainers": named(init_containers)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": spec,
    }


def marked(item):
    item = deepcopy(item)
    item["metadata"].setdefault("labels", {})[MARK] = "true"
    return item


def forged(namespace):
    return [
        pod(namespace, annotations={MARK: VALUE}),
        pod(namespace, labels={MARK: "true"}),
        pod(namespace, containers=("c", "dravirt-hook")),
        pod(namespace, init_containers=("dravirt-hook",)),
        pod(namespace, init_containers=("dravirt-hook",), annotations={MARK: VALUE}, labels={MARK: "true"}),
    ]


def test_a_pod_that_looks_injected_is_refused_whoever_creates_it(api, policies, namespace):
    for item in forged(namespace):
        assert "only pods that system:serviceaccount:kubevirt:kubevirt-controller creates for VMs have them" in denial(
            api, item
        )


def test_a_service_account_of_the_controllers_name_elsewhere_is_not_the_controller(stack, policies, namespace):
    pretender = stack.control_plane.api(f"system:serviceaccount:{namespace}:kubevirt-controller")
    for item in forged(namespace):
        assert denial(pretender, item)


def test_kubevirts_controller_may_create_such_pods(controller, namespace):
    # (The webhook is asked as well where it is registered: it looks at the annotation.)
    assert denial(controller, pod(namespace, init_containers=("dravirt-hook",), labels={MARK: "true"})) == ""


def test_other_pods_are_none_of_the_policies_business(api, policies, namespace):
    assert denial(api, pod(namespace, labels={"dravirt.io/injected-not": "x"}, containers=("dravirt-hooks",))) == ""


def test_a_mark_cannot_be_put_on_later_or_changed_and_the_rest_can(api, controller, namespace):
    plain = api.create(pod(namespace, "plain"))
    for change in ({"labels": {MARK: "true"}}, {"annotations": {MARK: VALUE}}):
        with pytest.raises(ApiError, match="are dravirt's"):
            api.merge(plain, {"metadata": change})
    injected = controller.create(pod(namespace, "injected", init_containers=("dravirt-hook",), labels={MARK: "true"}))
    for value in ("false", None):
        with pytest.raises(ApiError, match="are dravirt's"):
            api.merge(injected, {"metadata": {"labels": {MARK: value}}})

    api.merge(injected, {"metadata": {"labels": {"mine": "too"}}})
    api.delete(injected, now=True)
    api.delete(plain, now=True)


def test_a_vmi_cannot_hand_the_mark_on_to_its_pods(api, policies, namespace):
    vmi = machines.vmi(namespace)
    for change in ({"labels": {MARK: "true"}}, {"annotations": {MARK: VALUE}}):
        item = {**vmi, "metadata": {**vmi["metadata"], **change}}
        assert "remove it from the VM's template" in denial(api, item)
    assert denial(api, vmi) == ""


def test_a_vmi_that_asks_for_devices_and_has_no_placeholder_is_refused(api, policies):
    asks = machines.vmi(SKIPPED_BY_WEBHOOKS, asks="vgpu")
    assert "has no placeholder dravirt.io/gpu: dravirt's webhook was not asked" in denial(api, asks)

    other = {"devices": {"gpus": [{"name": "g", "deviceName": "nvidia.com/T4"}]}}
    assert denial(api, machines.vmi(SKIPPED_BY_WEBHOOKS, asks="vgpu", domain=other))

    placeholder = {"devices": {"gpus": [{"name": "gpu0", "deviceName": "dravirt.io/gpu"}]}}
    assert denial(api, machines.vmi(SKIPPED_BY_WEBHOOKS, asks="vgpu", domain=placeholder)) == ""
    assert denial(api, machines.vmi(SKIPPED_BY_WEBHOOKS)) == ""


def test_an_older_version_of_kubevirts_api_is_no_way_around_them(api, policies, namespace):
    older = {"apiVersion": "kubevirt.io/v1alpha3"}

    assert "remove it from the VM's template" in denial(api, marked(machines.vmi(namespace)) | older)
    assert "has no placeholder" in denial(api, machines.vmi(SKIPPED_BY_WEBHOOKS, asks="vgpu") | older)
    assert denial(api, machines.vmi(namespace) | older) == ""


def test_their_expressions_fit_the_types_of_what_they_look_at(api, policies):
    def checked(policy):
        found = api.refresh(policy)
        status = found.get("status", {})
        return status if status.get("observedGeneration") == found["metadata"]["generation"] else None

    for each in policies:
        status = until(lambda each=each: checked(each), seconds=60, what="the API server's look at types")
        assert status.get("typeChecking", {}).get("expressionWarnings", []) == [], each["metadata"]["name"]
