"""KubeVirt's permittedHostDevices: where it is set, the placeholder must be in it, and KubeVirt says so."""

import textwrap

import pytest
import yaml

from cluster import machines, watching
from cluster.api import conditions
from cluster.images import TREE
from cluster.process import until

pytestmark = pytest.mark.cluster
OTHER = {"pciVendorSelector": "10DE:1EB8", "resourceName": "nvidia.com/T4", "externalResourceProvider": True}


def shown_in_the_readme():
    """The entries of `pciHostDevices` that the README tells an administrator to write."""
    (block,) = (each for each in (TREE / "README.md").read_text().split("```") if "permittedHostDevices:" in each)
    shown = yaml.safe_load(textwrap.dedent(block.removeprefix("yaml\n")))
    return shown["spec"]["configuration"]["permittedHostDevices"]["pciHostDevices"]


@pytest.fixture
def permit(stack, dravirt, api, namespace):
    """Set permittedHostDevices.pciHostDevices, for the length of the test."""
    _ = stack.handmade_nodes
    api.apply(machines.template(namespace, "vgpu", machines.request("time-sliced")))

    def _permit(*devices):
        permitted = {"pciHostDevices": list(devices)} if devices else None
        stack.kubevirt.configure({"permittedHostDevices": permitted})

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


def test_with_what_the_readme_says_in_it_the_vm_starts(api, permit, namespace):
    permit(OTHER, *shown_in_the_readme())

    api.apply(machines.vm(namespace, asks="vgpu"))

    watching.bound(api, watching.launcher(api, namespace))
