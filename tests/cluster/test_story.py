"""On a node: one annotation ends with the allocated device in a domain that KubeVirt's own hook manager wrote."""

import pytest
from support.domains import guest_address, host_devices, source

from cluster import handler, machines, watching

pytestmark = pytest.mark.node


@pytest.fixture
def boot(api, node, drivers, dravirt, namespace):
    """Apply a VM and bring it to its domain, as far as KubeVirt, the node and the launcher's stand-in go."""

    def _boot(vm):
        api.apply(vm)
        pod = watching.running(api, watching.launcher(api, namespace, vm["metadata"]["name"]))
        vmi = watching.vmi_of(api, namespace, vm["metadata"]["name"])
        return pod, handler.define(node, pod, vmi)

    return _boot


def claims_of(api, namespace):
    """The devices that the namespace's claims hold, by request."""
    claims = api.list(machines.CLAIMS, "ResourceClaim", namespace)
    results = [each for claim in claims for each in claim["status"]["allocation"]["devices"]["results"]]
    return {each["request"]: each["device"] for each in results}


@pytest.mark.parametrize("device_class", ["time-sliced", "mig-backed"])
def test_a_vm_gets_the_mediated_device_that_was_allocated(api, drivers, boot, namespace, device_class):
    api.apply(machines.template(namespace, "vgpu", machines.request(device_class)))

    _, definition = boot(machines.vm(namespace, asks="vgpu"))

    device = host_devices(definition.domain.encode())["ua-gpu-gpu0"]
    assert device.get("type") == "mdev"
    assert source(device)["uuid"] == drivers.identity(claims_of(api, namespace)["gpu"])
    assert guest_address(device), "the second pass keeps the guest address of the first"


@pytest.mark.parametrize("device_class", ["vf", "passthrough"])
def test_a_vm_gets_the_pci_function_that_was_allocated(api, drivers, boot, namespace, device_class):
    api.apply(machines.template(namespace, "gpu", machines.request(device_class)))

    _, definition = boot(machines.vm(namespace, asks="gpu"))

    device = host_devices(definition.domain.encode())["ua-gpu-gpu0"]
    assert device.get("type") == "pci"
    address = {name: int(value, 16) for name, value in source(device).items() if name != "type"}
    spelled = f"{address['domain']:04x}:{address['bus']:02x}:{address['slot']:02x}.{address['function']:x}"
    assert spelled == drivers.identity(claims_of(api, namespace)["gpu"])
