"""On a node: what a launcher pod's sidecar is, and what its owner reads when it cannot do its work."""

import datetime as dt
import mmap
import os
import signal
import time
from pathlib import Path

import pytest
from support.domains import host_devices, source

from cluster import handler, machines, watching
from cluster.api import conditions
from cluster.cgroups import memory_of
from cluster.process import until

pytestmark = pytest.mark.node
SIDECAR = "dravirt-hook"
READY_AGAIN = 10
"""Seconds in which a killed sidecar must be ready again."""
BUDGET, CLOCK = dt.timedelta(seconds=30), dt.timedelta(seconds=1)
"""How long a sidecar looks for its devices before it serves in any case; the kubelet's times are in whole seconds."""


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


def started_at(pod, container):
    """When a container was started, in whole seconds."""
    return dt.datetime.fromisoformat(watching.status_of(pod, container)["state"]["running"]["startedAt"])


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


def test_without_metadata_the_owner_reads_what_is_missing(stack, node, drivers, start, namespace):
    with drivers.changed(metadata=[]):
        pod = start()
        definition = define(stack.api, node, pod)

    assert started_at(pod, "compute") - started_at(pod, SIDECAR) >= BUDGET - CLOCK
    assert "gpu0" in definition.error
    assert "OnDefineDomain refused" in node.logs(pod, SIDECAR)
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


@pytest.mark.parametrize("uuid", ["11111111-2222-4333-8444-555555555555", "no-uuid"])
def test_a_device_that_is_not_on_the_node_is_refused(api, node, drivers, start, uuid):
    names = [name for name, each in drivers.devices.items() if each.kind == "time-sliced"]
    wrong = {"attributes": {"mdevUUID": {"string": uuid}}}
    with drivers.changed(devices=dict.fromkeys(names, wrong)):
        pod = start()
        definition = define(api, node, pod)

    assert uuid in definition.error
    assert uuid in node.logs(pod, SIDECAR)


def test_a_killed_sidecar_is_ready_again_in_seconds_and_knows_its_device(api, node, start):
    pod = start()
    device = host_devices(define(api, node, pod).domain.encode())["ua-gpu-gpu0"]

    os.kill(node.pid(pod, SIDECAR), signal.SIGKILL)
    killed = time.monotonic()
    until(
        lambda: watching.status_of(api.refresh(pod), SIDECAR)["restartCount"] == 1,
        seconds=READY_AGAIN,
        what="a restart",
    )
    watching.running(api, pod, seconds=READY_AGAIN)

    assert time.monotonic() - killed < READY_AGAIN
    again = host_devices(define(api, node, pod).domain.encode())["ua-gpu-gpu0"]
    assert source(again) == source(device)
