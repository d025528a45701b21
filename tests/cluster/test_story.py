"""On a node: one annotation ends with the allocated device in a domain that KubeVirt's own hook manager wrote."""

import json

import pytest
from support.domains import guest_address, host_devices, identity

from cluster import handler, machines, watching
from cluster.drivers import CLASSES
from cluster.handler import attached
from cluster.images import OTHER_HOOK_IMAGE

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


@pytest.fixture
def allocated(api, drivers, namespace):
    """The identities of the devices that the namespace's claims hold, by request."""

    def _allocated():
        claims = api.list(machines.CLAIMS, "ResourceClaim", namespace)
        results = [each for claim in claims for each in claim["status"]["allocation"]["devices"]["results"]]
        by_request = {}
        for each in results:
            by_request.setdefault(each["request"], []).append(drivers.identity(each["device"]))
        return by_request

    return _allocated


@pytest.mark.parametrize("device_class", CLASSES)
def test_a_vm_gets_the_device_that_was_allocated(api, boot, allocated, namespace, device_class):
    api.apply(machines.template(namespace, "gpu", machines.request(device_class)))

    _, definition = boot(machines.vm(namespace, asks="gpu"))

    assert attached(definition) == {"gpu0": allocated()["gpu"][0]}
    (device,) = host_devices(definition.domain.encode()).values()
    assert guest_address(device), "the second pass keeps the guest address of the first"


def test_two_kinds_in_one_vm(api, boot, allocated, namespace):
    api.apply(machines.template(namespace, "vgpu", machines.request("mig-backed", "vgpu")))
    api.apply(machines.template(namespace, "whole", machines.request("passthrough", "whole")))
    names = {"a": "vgpu", "b": "whole"}
    entries = [{"name": name, "resourceClaimTemplateName": template} for name, template in names.items()]

    _, definition = boot(machines.vm(namespace, asks=machines.devices(*entries)))

    assert attached(definition) == {name: allocated()[request][0] for name, request in names.items()}


def test_count_two_attaches_both_devices_in_the_order_of_their_names(api, boot, allocated, namespace):
    api.apply(machines.template(namespace, "pair", machines.request("vf", count=2)))
    asks = machines.devices({"name": "gpu", "resourceClaimTemplateName": "pair", "count": 2})

    _, definition = boot(machines.vm(namespace, asks=asks))

    assert attached(definition) == dict(zip(("gpu-0", "gpu-1"), sorted(allocated()["gpu"]), strict=True))


def test_a_direct_claim(api, boot, allocated, namespace):
    api.apply(machines.claim(namespace, "mine", machines.request("time-sliced")))
    asks = machines.devices({"name": "gpu0", "resourceClaimName": "mine"})

    _, definition = boot(machines.vm(namespace, asks=asks))

    assert attached(definition) == {"gpu0": allocated()["gpu"][0]}


def test_two_entries_on_two_requests_of_one_claim(api, boot, allocated, namespace):
    requests = machines.request("time-sliced", "first"), machines.request("vf", "second")
    api.apply(machines.template(namespace, "both", *requests))
    entries = [
        {"name": name, "resourceClaimTemplateName": "both", "request": request}
        for name, request in (("a", "second"), ("b", "first"))
    ]

    pod, definition = boot(machines.vm(namespace, asks=machines.devices(*entries)))

    assert attached(definition) == {"a": allocated()["second"][0], "b": allocated()["first"][0]}
    assert len(pod["spec"]["resourceClaims"]) == 1


def test_first_available_takes_the_sub_request_that_the_scheduler_chose(api, boot, allocated, namespace):
    api.apply(machines.template(namespace, "any", machines.first_available("gpu", "vf", "time-sliced")))

    _, definition = boot(machines.vm(namespace, asks="any"))

    assert attached(definition) == {"gpu0": allocated()["gpu/vf"][0]}


def test_two_drivers_in_one_claim(api, boot, allocated, namespace):
    requests = machines.request("time-sliced", "vgpu"), machines.request("other", "whole")
    api.apply(machines.template(namespace, "both", *requests))
    entries = [{"name": name, "resourceClaimTemplateName": "both", "request": name} for name in ("vgpu", "whole")]

    _, definition = boot(machines.vm(namespace, asks=machines.devices(*entries)))

    assert attached(definition) == {name: allocated()[name][0] for name in ("vgpu", "whole")}


def test_beside_another_hook_sidecar(api, gates, boot, allocated, namespace):
    gates("Sidecar")
    api.apply(machines.template(namespace, "vgpu", machines.request("time-sliced")))
    vm = machines.vm(namespace, asks="vgpu")
    hook = [{"image": OTHER_HOOK_IMAGE, "args": ["--version", "v1alpha2"]}]
    vm["spec"]["template"]["metadata"]["annotations"]["hooks.kubevirt.io/hookSidecars"] = json.dumps(hook)

    pod, definition = boot(vm)

    assert pod["spec"]["containers"][0]["command"].count("2") >= 1
    assert attached(definition) == {"gpu0": allocated()["gpu"][0]}
    assert "<title>other hook</title>" in definition.domain


def test_a_guaranteed_pod_stays_guaranteed(api, boot, allocated, namespace):
    api.apply(machines.template(namespace, "vgpu", machines.request("time-sliced")))
    resources = {"cpu": "500m", "memory": "128Mi"}
    domain = {"resources": {"requests": resources, "limits": resources}, "memory": {"guest": "128Mi"}}

    pod, definition = boot(machines.vm(namespace, asks="vgpu", domain=domain))

    assert pod["status"]["qosClass"] == "Guaranteed"
    assert attached(definition) == {"gpu0": allocated()["gpu"][0]}


def test_a_root_launcher_has_a_sidecar_that_is_not_root(api, gates, boot, allocated, namespace):
    gates("Root")
    api.apply(machines.template(namespace, "vgpu", machines.request("time-sliced")))

    pod, definition = boot(machines.vm(namespace, asks="vgpu"))

    assert pod["spec"]["containers"][0]["securityContext"]["runAsUser"] == 0
    sidecar = next(each for each in pod["spec"]["initContainers"] if each["name"] == "dravirt-hook")
    assert sidecar["securityContext"]["runAsUser"] == 107
    assert attached(definition) == {"gpu0": allocated()["gpu"][0]}


def test_a_deleted_vm_gives_its_device_back_and_leaves_no_file(api, node, boot, namespace):
    api.apply(machines.template(namespace, "vgpu", machines.request("time-sliced")))
    boot(machines.vm(namespace, asks="vgpu"))
    (claim,) = watching.allocated(api, namespace)
    assert [path for path in node.cdi.iterdir() if claim["metadata"]["uid"] in path.name]

    watching.clear(api, namespace)

    assert not [path for path in node.cdi.iterdir() if claim["metadata"]["uid"] in path.name]


def test_what_a_driver_knows_is_in_the_status_of_the_claim(api, drivers, boot, allocated, namespace):
    known = {
        name: {"attributes": {"mdevUUID": {"string": each.identity}}, "status": {"mdevUUID": each.identity}}
        for name, each in drivers.devices.items()
        if each.kind == "time-sliced"
    }
    api.apply(machines.template(namespace, "vgpu", machines.request("time-sliced")))

    with drivers.changed(devices=known):
        _, definition = boot(machines.vm(namespace, asks="vgpu"))

    (claim,) = api.list(machines.CLAIMS, "ResourceClaim", namespace)
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    (entry,) = claim["status"]["devices"]
    assert {name: entry[name] for name in ("driver", "pool", "device")} == {
        name: result[name] for name in ("driver", "pool", "device")
    }
    assert entry["data"] == {"mdevUUID": allocated()["gpu"][0]}
    assert attached(definition) == {"gpu0": entry["data"]["mdevUUID"]}


@pytest.fixture
def append_mode(dravirt):
    """dravirt in append mode, for the length of the test."""
    before = json.loads(dravirt.config.read_text())
    dravirt.configure({**before, "mode": "append"})
    yield
    dravirt.configure(before)


def test_append_mode_adds_the_device_to_a_domain_that_has_none(api, append_mode, boot, allocated, namespace):
    api.apply(machines.template(namespace, "vgpu", machines.request("time-sliced")))

    _, definition = boot(machines.vm(namespace, asks="vgpu"))

    assert "gpus" not in watching.vmi_of(api, namespace)["spec"]["domain"]["devices"]
    assert not host_devices(definition.passes[0][0].encode()), "KubeVirt knows of no device"
    ((alias, device),) = host_devices(definition.domain.encode()).items()
    assert (alias, identity(device)) == ("ua-dravirt-gpu0", allocated()["gpu"][0])
    assert guest_address(device), "the second pass keeps the guest address of the first"
