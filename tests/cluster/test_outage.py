"""With dravirt away: opted-in VMs do not start until it is back, and nothing else is refused or held up."""

import pytest

from cluster import handler, machines, watching
from cluster.api import ApiError, conditions
from cluster.dravirt import refusal, register
from cluster.process import until
from cluster.watching import KUBEVIRT

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
def cluster(stack, dravirt, api, namespace):
    """KubeVirt, dravirt, nodes without a kubelet and a claim template `vgpu`; at the end dravirt is up again."""
    _ = stack.handmade_nodes
    api.apply(machines.template(namespace, "vgpu", machines.request("time-sliced")))
    yield
    dravirt.up()


@pytest.fixture(params=["gone", "stuck"])
def go_away(request, dravirt):
    """Take dravirt away: no server, as with no replicas, or one that takes connections and does not answer.

    What is asked of a server that is stuck is refused after 5 seconds: what passes was neither asked nor held up.
    """
    return dravirt.down if request.param == "gone" else dravirt.get_stuck


def test_a_new_opted_in_vm_is_refused(api, go_away, namespace):
    go_away()

    with pytest.raises(ApiError, match=r'failed calling webhook "vm\.dravirt\.io"'):
        api.apply(machines.vm(namespace, asks="vgpu"))


def test_vms_without_the_annotation_and_other_objects_pass(api, go_away, namespace):
    go_away()

    vm = api.apply(machines.vm(namespace))
    watching.bound(api, watching.launcher(api, namespace))
    api.merge(vm, {"metadata": {"labels": {"team": "a"}}})
    api.delete(vm)
    metadata = {"name": "other", "namespace": namespace}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "c", "image": "c"}]},
    }
    watching.bound(api, api.create(pod))
    api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def test_a_vm_without_a_template_is_refused_for_that_and_not_by_our_conditions(api, namespace):
    vm = machines.vm(namespace)
    for spec in ({}, {"template": None}, None):
        with pytest.raises(ApiError, match="spec") as refused:
            api.create({**vm, "spec": spec})
        assert "dravirt" not in str(refused.value)


def test_a_vm_that_runs_keeps_its_status_and_can_be_changed_stopped_and_deleted(
    stack, api, go_away, boot_on_paper, namespace
):
    vm, _ = boot_on_paper(machines.vm(namespace, asks="vgpu"))
    go_away()

    paused = {"type": "Paused", "status": "True", "message": "by its guest"}
    handler.set_condition(stack.handler, watching.vmi_of(api, namespace), paused)
    assert watching.told(api, vm, "Paused", "True") == "by its guest"
    api.merge(vm, {"metadata": {"labels": {"team": "a"}}})
    api.merge(vm, {"spec": {"runStrategy": "Halted"}})
    until(lambda: not api.list(KUBEVIRT, "VirtualMachineInstance", namespace), seconds=60, what="the VMI gone")
    until(lambda: api.refresh(vm)["status"].get("printableStatus") == "Stopped", seconds=30, what="status Stopped")
    until(lambda: not api.list(machines.CLAIMS, "ResourceClaim", namespace), seconds=30, what="the claim gone")
    api.delete(vm)


def test_a_vm_that_is_restarted_comes_back_with_it(api, dravirt, boot_on_paper, namespace):
    vm, pod = boot_on_paper(machines.vm(namespace, asks="vgpu"))
    dravirt.down()

    watching.restart(api, namespace)
    message = watching.told(api, vm, "Failure", "True")
    dravirt.up()

    assert 'failed calling webhook "vmi.dravirt.io"' in message
    again = watching.bound(api, watching.replaced(api, pod, seconds=120))
    assert [each["name"] for each in again["spec"]["resourceClaims"]] == ["dravirt-gpu0"]


def test_a_launcher_pod_that_is_refused_comes_when_it_is_back(stack, api, dravirt, namespace):
    registered = register(api, stack.control_plane.authority.pem)
    (mutating,) = (each for each in registered if each["kind"] == "MutatingWebhookConfiguration")
    for each in mutating["webhooks"]:
        if each["name"] == "pod.dravirt.io":
            each["clientConfig"]["service"]["name"] = "nowhere"
    refused = 'failed calling webhook "pod.dravirt.io"'

    def failure():
        vmis = api.list(KUBEVIRT, "VirtualMachineInstance", namespace)
        found = [condition for each in vmis for condition in conditions(each)]
        return [each["message"] for each in found if each["type"] == "Synchronized" and each["status"] == "False"]

    try:
        api.merge(mutating, {"webhooks": mutating["webhooks"]})
        until(lambda: refused in refusal(api), seconds=60, what="the API server asking nowhere")
        api.apply(machines.vm(namespace, asks="vgpu"))
        (message, *_) = until(failure, seconds=60, what="condition Synchronized=False")
    finally:
        register(api, stack.control_plane.authority.pem)

    assert refused in message
    watching.bound(api, watching.launcher(api, namespace, seconds=120))
