"""On a node: what a launcher pod's sidecar is, and what its owner reads when it cannot do its work."""

import datetime as dt
import mmap
import os
import signal
from pathlib import Path

import pytest
from support.domains import host_devices, source

from cluster import fleet, handler, machines, watching
from cluster.api import conditions
from cluster.cgroups import memory_of
from cluster.process import until

pytestmark = pytest.mark.node
SIDECAR = "dravirt-hook"
READY_AGAIN = 10
"""Seconds in which a killed sidecar that is started again must be ready."""
BUDGET = 30
"""Seconds for which a sidecar looks for its devices before it serves in any case."""


@pytest.fixture
def start(api, node, drivers, dravirt, namespace):
    """Start a VM with a time-sliced vGPU and return its launcher pod once all of it runs."""

    def _start():
        api.apply(machines.template(namespace, "vgpu", machines.request("time-sliced")))
        api.apply(machines.vm(namespace, asks="vgpu"))
        return watching.running(api, watching.launcher(api, namespace))

    return _start


def define(api, node, pod):
    vmi = watching.vmi_of(api, pod["metadata"]["namespace"], pod["metadata"]["labels"]["vm.kubevirt.io/name"])
    return handler.define(node, pod, vmi)


def test_it_serves_before_compute_starts(node, start):
    pod = start()

    assert node.wrote_at(pod, SIDECAR, "serving on") < node.started_at(pod, "compute")


def test_it_runs_as_qemu_without_any_privilege(node, start):
    pod = start()

    proc = Path(f"/proc/{node.pid(pod, SIDECAR)}")
    process = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines() if ":\t" in line)
    assert process["Uid"].split() == process["Gid"].split() == ["107"] * 4
    assert {process[f"Cap{each}"] for each in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert (process["NoNewPrivs"], process["Seccomp"]) == ("1", "2")
    mounts = [line.split() for line in (proc / "mountinfo").read_text().splitlines()]
    (options,) = (each[5] for each in mounts if each[4] == "/")
    assert "ro" in options.split(",")
    _, limit = memory_of(node.pid(pod, SIDECAR))
    assert limit == 64_000_000 // mmap.PAGESIZE * mmap.PAGESIZE, "64M: the kernel counts in pages"


FAULTS = {
    "none": {"metadata": []},
    "empty": {"written": "empty"},
    "cut": {"written": "cut"},
    "elsewhere": {"attributes": {"mdevUUID": {"string": "11111111-2222-4333-8444-555555555555"}}},
    "malformed": {"attributes": {"mdevUUID": {"string": "no-uuid"}}},
}
"""What a driver may do wrong, as settings of a device: the metadata is not there, unfinished, or names no device."""


@pytest.fixture(scope="module")
def faulty(api, node, drivers, dravirt):
    """A VM for each fault, by its name: its launcher pod. They start at once: each sidecar looks for half a minute."""
    namespace = "faulty"
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    names = [each.name for each in drivers.devices.values() if each.kind == "time-sliced"]
    try:
        with drivers.changed(devices=dict(zip(names, FAULTS.values(), strict=False))):
            for fault, device in zip(FAULTS, names, strict=False):
                request = machines.request_of(device, fleet.DRIVER, "time-sliced")
                api.apply(machines.template(namespace, fault, request))
                api.apply(machines.vm(namespace, fault, asks=fault))
            launchers = {fault: watching.launcher(api, namespace, fault) for fault in FAULTS}
            yield {fault: watching.running(api, pod, seconds=240) for fault, pod in launchers.items()}
    finally:
        watching.clear(api, namespace)


def test_without_metadata_the_owner_reads_what_is_missing(stack, api, node, faulty):
    pod = faulty["none"]
    definition = define(api, node, pod)

    assert "gpu0" in definition.error
    until(lambda: "OnDefineDomain refused" in node.logs(pod, SIDECAR), seconds=30, what="the refusal in its log")
    watching.in_phase(api, "faulty", "Scheduled", "none")
    vmi = watching.vmi_of(api, "faulty", "none")
    handler.report(stack.handler, vmi, definition)
    (message,) = (each["message"] for each in conditions(api.refresh(vmi)) if each["type"] == "Synchronized")
    assert "gpu0" in message


@pytest.mark.parametrize("fault", FAULTS)
def test_compute_starts_when_the_sidecar_has_looked_for_half_a_minute(node, faulty, fault):
    pod = faulty[fault]

    assert node.started_at(pod, "compute") - node.started_at(pod, SIDECAR) > BUDGET
    assert "serving without devices" in node.logs(pod, SIDECAR)


@pytest.mark.parametrize("fault", ["elsewhere", "malformed"])
def test_a_device_that_is_not_on_the_node_is_refused(api, node, faulty, fault):
    uuid = FAULTS[fault]["attributes"]["mdevUUID"]["string"]

    assert uuid in define(api, node, faulty[fault]).error
    assert uuid in node.logs(faulty[fault], SIDECAR)


@pytest.mark.parametrize("fault", ["empty", "cut"])
def test_an_unfinished_metadata_file_is_read_when_it_is_whole(api, node, drivers, faulty, fault):
    pod = faulty[fault]
    before = define(api, node, pod)
    (device,) = (each["device"] for each in result_of(api, pod))

    with drivers.changed(devices={device: {"attributes": {"mdevUUID": {"string": drivers.identity(device)}}}}):
        after = handler.define_at_last(node, pod, watching.vmi_of(api, "faulty", fault))
    assert "gpu0" in before.error
    assert source(host_devices(after.domain.encode())["ua-gpu-gpu0"])["uuid"] == drivers.identity(device)


def result_of(api, pod):
    (name,) = (each["resourceClaimName"] for each in pod["status"]["resourceClaimStatuses"])
    claim = api.get(machines.CLAIMS, "ResourceClaim", name, pod["metadata"]["namespace"])
    return claim["status"]["allocation"]["devices"]["results"]


def test_a_killed_sidecar_is_ready_again_in_seconds_and_knows_its_device(api, node, start):
    pod = start()
    device = host_devices(define(api, node, pod).domain.encode())["ua-gpu-gpu0"]

    os.kill(node.pid(pod, SIDECAR), signal.SIGKILL)
    until(lambda: watching.status_of(api.refresh(pod), SIDECAR)["restartCount"] == 1, seconds=90, what="a restart")
    pod = watching.running(api, pod)

    # By the kubelet's clock: how soon it sees that a process has ended is not the sidecar's doing.
    started = watching.status_of(pod, SIDECAR)["state"]["running"]["startedAt"]
    (ready,) = (each["lastTransitionTime"] for each in conditions(pod) if each["type"] == "Ready")
    assert (dt.datetime.fromisoformat(ready) - dt.datetime.fromisoformat(started)).total_seconds() < READY_AGAIN
    # (the probe sees the socket that the killed one left, a moment before the next one serves)
    definition = handler.define_at_last(node, pod, watching.vmi_of(api, pod["metadata"]["namespace"]))
    again = host_devices(definition.domain.encode())["ua-gpu-gpu0"]
    assert source(again) == source(device)
