"""KubeVirt's permittedHostDevices: where it is set, the placeholder must be in it, and KubeVirt says so."""

import pytest

from cluster import kubevirt, machines, watching
from cluster.api import conditions
from cluster.process import until

pytestmark = pytest.mark.cluster
OTHER = {"pciVendorSelector": "10DE:1EB8", "resourceName": "nvidia.com/T4", "externalResourceProvider": True}
# A selector that no device has: 0xffff is no vendor.
PLACEHOLDER = {"pciVendorSelector": "FFFF:FFFF", "resourceName": "dravirt.io/gpu", "externalResourceProvider": True}


@pytest.fixture
def permit(stack, dravirt, api, namespace):
    """Set permittedHostDevices.pciHostDevices, for the length of the test."""
    _ = stack.handmade_nodes
    api.apply(machines.template(namespace, "vgpu", machines.request("time-sliced")))

    def _permit(*devices):
        permitted = {"pciHostDevices": list(devices)} if devices else None
        kubevirt.configure(api, {"permittedHostDevices": permitted})

    yield _permit
    _permit()


def test_without_the_placeholder_kubevirts_denial_reaches_the_vm(api, permit, namespace):
    permit(OTHER)
    vm = api.apply(machines.vm(namespace, asks="vgpu"))

    def messages():
        vmis = api.list("kubevirt.io/v1", "VirtualMachineInstance", namespace)
        found = [condition for each in (api.refresh(vm), *vmis) for condition in conditions(each)]
        return [each["message"] for each in found if "not permitted" in each.get("message", "")]

    (message, *_) = until(messages, seconds=30, what="KubeVirt's denial")
    assert "dravirt.io/gpu is not permitted in permittedHostDevices configuration" in message


def test_with_the_placeholder_permitted_the_vm_starts(api, permit, namespace):
    permit(OTHER, PLACEHOLDER)

    api.apply(machines.vm(namespace, asks="vgpu"))

    watching.bound(api, watching.launcher(api, namespace))
