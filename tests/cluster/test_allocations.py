"""On a node: drivers that write nothing into the pod, and a sidecar that asks dravirt's service which device it is."""

import json
import os
import signal
import time

import pytest
import yaml
from support.domains import host_devices, source

from cluster import fleet, handler, machines, watching
from cluster.controlplane import WEBHOOK
from cluster.dravirt import NAMESPACE, SERVICE, WEBHOOKS
from cluster.images import SIDECAR_IMAGE

pytestmark = pytest.mark.node
SIDECAR = "dravirt-hook"


@pytest.fixture(scope="module")
def service(stack, dravirt):
    """dravirt with its allocation service on, at the Service's address, with the rights that `deploy/` gives it."""
    (role,) = yaml.safe_load_all((WEBHOOKS.parent / "rbac-allocations.yaml").read_text())
    stack.api.apply(role)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"]}
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": WEBHOOK}
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
    stack.api.apply(binding | {"metadata": {"name": "allocations"}, "roleRef": reference, "subjects": [subject]})
    address = stack.api.get("v1", "Service", SERVICE, NAMESPACE)["spec"]["clusterIP"]
    before = dravirt.config.read_text()
    plane = stack.control_plane
    keys = {"caFile": str(plane.authority.pair.certificate), "url": f"https://{address}:443"}
    dravirt.down()
    dravirt.command.append(f"--kubeconfig={plane.kubeconfig(WEBHOOK)}")
    dravirt.configure({"sidecar": {"image": SIDECAR_IMAGE}, "allocationService": keys})
    dravirt.up()
    yield dravirt
    dravirt.config.write_text(before)
    time.sleep(2)


@pytest.fixture
def silent(drivers):
    """Drivers that write no metadata, and of mediated devices the UUID into the claim's status alone."""
    changes = {
        each.name: {"attributes": {}, "status": {"mdevUUID": each.identity} if each.is_mdev else None}
        for each in fleet.fleet()
    }
    own = {each.name for each in fleet.fleet() if each.driver == fleet.DRIVER}
    first = {name: change for name, change in changes.items() if name in own}
    other = {name: change for name, change in changes.items() if name not in own}
    with (
        drivers.changed(metadata=[], devices=first),
        drivers.changed(fleet.OTHER_DRIVER, metadata=[], devices=other),
    ):
        time.sleep(1)  # a driver reads its settings again
        yield


@pytest.fixture
def boot(api, node, service, silent, namespace):
    def _boot(vm):
        api.apply(vm)
        pod = watching.running(api, watching.launcher(api, namespace, vm["metadata"]["name"]))
        return pod, handler.define(node, pod, watching.vmi_of(api, namespace, vm["metadata"]["name"]))

    return _boot


def attached(definition):
    assert not definition.error, definition.error
    devices = host_devices(definition.domain.encode())
    return {alias.removeprefix("ua-gpu-"): _identity(each) for alias, each in devices.items()}


def _identity(device):
    address = source(device)
    if device.get("type") == "mdev":
        return address["uuid"]
    domain, bus, slot, function = (int(address[name], 16) for name in ("domain", "bus", "slot", "function"))
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"


@pytest.fixture
def allocated(api, drivers, namespace):
    def _allocated():
        claims = api.list(machines.CLAIMS, "ResourceClaim", namespace)
        results = [each for claim in claims for each in claim["status"]["allocation"]["devices"]["results"]]
        return sorted((each["request"], drivers.identity(each["device"])) for each in results)

    return _allocated


def test_mediated_devices_and_functions_of_two_drivers(api, node, boot, allocated, namespace):
    requests = machines.request("time-sliced", "vgpu"), machines.request("other", "whole")
    api.apply(machines.template(namespace, "both", *requests))
    api.apply(machines.template(namespace, "pair", machines.request("vf", count=2)))
    api.apply(machines.template(namespace, "any", machines.first_available("gpu", "mig-backed", "vf")))
    entries = [
        {"name": "a", "resourceClaimTemplateName": "both", "request": "vgpu"},
        {"name": "b", "resourceClaimTemplateName": "both", "request": "whole"},
        {"name": "c", "resourceClaimTemplateName": "pair", "count": 2},
        {"name": "d", "resourceClaimTemplateName": "any"},
    ]

    pod, definition = boot(machines.vm(namespace, asks=machines.devices(*entries)))

    assert sorted(attached(definition).values()) == sorted(identity for _, identity in allocated())
    assert attached(definition)["a"] == dict(allocated())["vgpu"]
    assert attached(definition)["d"] == dict(allocated())["gpu/mig-backed"]
    found = [json.loads(line) for line in _lines(node, pod) if "devices found" in line]
    assert {each["source"] for each in found[0]["devices"]} == {"service"}


def _lines(node, pod):
    return [line[line.index("{") :] for line in node.logs(pod, SIDECAR).splitlines() if "{" in line]


def test_a_direct_claim_of_two_vms_is_attached_to_the_first_alone(api, node, boot, allocated, namespace):
    api.apply(machines.claim(namespace, "mine", machines.request("time-sliced")))
    asks = machines.devices({"name": "gpu0", "resourceClaimName": "mine"})

    first, definition = boot(machines.vm(namespace, "first", asks=asks))
    second, refused = boot(machines.vm(namespace, "second", asks=asks))

    assert list(attached(definition).values()) == [identity for _, identity in allocated()]
    assert f"held by pod '{first['metadata']['name']}'" in refused.error
    assert "claim_held" in refused.error
    api.delete(
        {
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachine",
            "metadata": {"name": "first", "namespace": namespace},
        }
    )
    time.sleep(5)
    again = handler.define(node, second, watching.vmi_of(api, namespace, "second"))
    assert list(attached(again).values()) == [identity for _, identity in allocated()]


def test_a_killed_sidecar_is_ready_again_with_the_service_gone(api, node, boot, service, namespace):
    api.apply(machines.template(namespace, "vgpu", machines.request("time-sliced")))
    pod, definition = boot(machines.vm(namespace, asks="vgpu"))
    before = attached(definition)
    service.down()
    try:
        os.kill(node.pid(pod, SIDECAR), signal.SIGKILL)
        time.sleep(2)
        pod = watching.running(api, pod, seconds=30)
        again = handler.define(node, pod, watching.vmi_of(api, namespace))
        assert attached(again) == before
    finally:
        service.up()
