"""On a node: what a launcher pod's sidecar is, and what its owner reads when it cannot do its work."""

import os
import signal
import time
from pathlib import Path

import pytest
from support.domains import host_devices, source

from cluster import handler, machines, watching
from cluster.api import conditions
from cluster.process import until

pytestmark = pytest.mark.node
SIDECAR = "dravirt-hook"
READY_AGAIN = 10
"""Seconds in which a killed sidecar must be ready again."""


@pytest.fixture
def start(api, node, drivers, dravirt, namespace):
    """Start a VM with a time-sliced vGPU and return its launcher pod once all of it runs."""

    def _start():
        api.apply(machines.template(namespace, "vgpu", machines.request("time-sliced")))
        api.apply(machines.vm(namespace, asks="vgpu"))
        return watching.running(api, watching.launcher(api, namespace))

    return _start


def define(api, node, pod):
    vmi = watching.vmi_of(api, pod["metadata"]["namespace"])
    return handler.define(node, pod, vmi)


def status_of(pod, container):
    statuses = (*pod["status"].get("initContainerStatuses", ()), *pod["status"].get("containerStatuses", ()))
    return next(each for each in statuses if each["name"] == container)


def test_it_is_served_before_compute_starts(start):
    pod = start()

    sidecar, compute = (status_of(pod, name)["state"]["running"]["startedAt"] for name in (SIDECAR, "compute"))
    assert sidecar <= compute
    assert status_of(pod, SIDECAR)["started"]


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
    limits = next(each for each in pod["spec"]["initContainers"] if each["name"] == SIDECAR)["resources"]["limits"]
    assert limits["memory"] == "64M"


def test_without_metadata_the_owner_reads_what_is_missing(stack, node, drivers, start, namespace):
    with drivers.changed(metadata=[]):
        pod = start()
        definition = define(stack.api, node, pod)

    assert "gpu0" in definition.error
    assert "gpu0" in node.logs(pod, SIDECAR)
    handler.report(stack.handler, watching.vmi_of(stack.api, namespace), definition)
    found = conditions(watching.vmi_of(stack.api, namespace))
    (message,) = (each["message"] for each in found if each["type"] == "Synchronized")
    assert "gpu0" in message


@pytest.mark.parametrize("written", ["empty", "cut"])
def test_an_unfinished_metadata_file_is_read_when_it_is_whole(api, node, drivers, start, written):
    with drivers.changed(written=written):
        pod = start()
        before = define(api, node, pod)

    def defined():
        found = define(api, node, pod)
        return found if found.error is None else None

    after = until(defined, seconds=30, what="a domain after the file was written")
    assert "gpu0" in before.error
    assert source(host_devices(after.domain.encode())["ua-gpu-gpu0"])["uuid"]


def test_a_device_that_is_not_on_the_node_is_refused(api, node, drivers, start):
    missing = {"mdevUUID": {"string": "11111111-2222-4333-8444-555555555555"}}
    names = [name for name, each in drivers.devices.items() if each.kind == "time-sliced"]
    with drivers.changed(devices={name: {"attributes": missing} for name in names}):
        pod = start()
        definition = define(api, node, pod)

    assert "11111111-2222-4333-8444-555555555555" in definition.error


def test_a_killed_sidecar_is_ready_again_in_seconds_and_knows_its_device(api, node, start):
    pod = start()
    device = host_devices(define(api, node, pod).domain.encode())["ua-gpu-gpu0"]

    os.kill(node.pid(pod, SIDECAR), signal.SIGKILL)
    killed = time.monotonic()
    until(lambda: status_of(api.refresh(pod), SIDECAR)["restartCount"] == 1, seconds=READY_AGAIN, what="a restart")
    watching.running(api, pod, seconds=READY_AGAIN)

    assert time.monotonic() - killed < READY_AGAIN
    again = host_devices(define(api, node, pod).domain.encode())["ua-gpu-gpu0"]
    assert source(again) == source(device)
