"""With dravirt down: opted-in VMs do not start until it is back, and nothing else is held up."""

import pytest

from cluster import machines, watching
from cluster.api import ApiError, conditions
from cluster.dravirt import register
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


def test_a_new_opted_in_vm_is_refused(api, dravirt, namespace):
    dravirt.down()

    with pytest.raises(ApiError, match=r'failed calling webhook "vm\.dravirt\.io"'):
        api.apply(machines.vm(namespace, asks="vgpu"))


def test_a_vm_without_the_annotation_starts(api, dravirt, namespace):
    dravirt.down()

    api.apply(machines.vm(namespace))

    watching.bound(api, watching.launcher(api, namespace))


def test_a_vm_that_is_there_can_be_labelled_stopped_and_deleted(api, dravirt, namespace):
    vm = api.apply(machines.vm(namespace, asks="vgpu"))
    watching.bound(api, watching.launcher(api, namespace))
    dravirt.down()

    api.merge(vm, {"metadata": {"labels": {"team": "a"}}})
    api.merge(vm, {"spec": {"runStrategy": "Halted"}})

    until(lambda: not api.list(KUBEVIRT, "VirtualMachineInstance", namespace), seconds=60, what="the VMI gone")
    until(
        lambda: api.refresh(vm).get("status", {}).get("printableStatus") == "Stopped", seconds=30, what="status Stopped"
    )
    api.delete(vm)


def test_a_start_is_tried_again_until_it_is_back(api, dravirt, namespace):
    vm = api.apply(machines.vm(namespace, asks="vgpu", running=False))
    dravirt.down()
    api.merge(vm, {"spec": {"runStrategy": "Always"}})

    def failure():
        found = conditions(api.refresh(vm))
        return [each["message"] for each in found if each["type"] == "Failure" and each["status"] == "True"]

    (message, *_) = until(failure, seconds=30, what="condition Failure")
    dravirt.up()

    assert "vmi.dravirt.io" in message
    watching.bound(api, watching.launcher(api, namespace, seconds=120))


def test_a_launcher_pod_that_is_refused_comes_when_it_is_back(stack, api, dravirt, namespace):
    registered = register(api, stack.control_plane.authority.pem)
    (mutating,) = (each for each in registered if each["kind"] == "MutatingWebhookConfiguration")
    for each in mutating["webhooks"]:
        if each["name"] == "pod.dravirt.io":
            each["clientConfig"]["service"]["name"] = "nowhere"
    api.merge(mutating, {"webhooks": mutating["webhooks"]})
    api.apply(machines.vm(namespace, asks="vgpu"))

    def failure():
        vmis = api.list(KUBEVIRT, "VirtualMachineInstance", namespace)
        found = [condition for each in vmis for condition in conditions(each)]
        return [each["message"] for each in found if each["type"] == "Synchronized" and each["status"] == "False"]

    (message, *_) = until(failure, seconds=30, what="condition Synchronized=False")
    register(api, stack.control_plane.authority.pem)

    assert 'failed calling webhook "pod.dravirt.io"' in message
    watching.bound(api, watching.launcher(api, namespace, seconds=120))
