"""The sidecar under the stand-in for virt-launcher, from cold start to a defined domain."""

import threading
import time
from dataclasses import replace

import pytest
from support.claimed import entry
from support.domains import GRAPHICS, guest_address, host_devices, placeholder, small_domain, source
from support.launcher import RELEASES, HookManager, Launcher, SyncError, start_vmi
from support.nodetree import A100_MDEV
from support.waiting import wait_until

ENTRY = entry(request="vgpu")
GPU = "ua-gpu-gpu0"
NIC = '<interface type="ethernet"><target dev="tap0"/><alias name="ua-default"/></interface>'
DOMAIN = small_domain(placeholder("gpu0"), NIC, GRAPHICS)
PASSES = {"v1.5": 2, "v1.6": 3, "v1.8": 3}


def uuids(domain):
    return {name: source(element).get("uuid") for name, element in host_devices(domain).items()}


@pytest.mark.parametrize("release", PASSES)
def test_cold_start_ends_with_the_device_in_every_pass(pod, release):
    """virt-launcher looks for the socket from before the sidecar's start on."""
    pod.allocate()
    launcher = Launcher(pod.sockets, RELEASES[release])
    sidecar = pod.start(pod.environment(ENTRY), ready=False)
    launcher.collect(1)
    launcher.sync(DOMAIN)
    assert len(launcher.passes) == PASSES[release]
    # Each pass is defined: where a later one fails, libvirt starts what an earlier one gave.
    assert [uuids(answer) for _, answer in launcher.passes] == [{GPU: A100_MDEV}] * PASSES[release]
    addresses = [guest_address(host_devices(domain)[GPU]) for pair in launcher.passes[1:] for domain in pair]
    assert addresses[0] is not None
    assert addresses == [addresses[0]] * len(addresses), "the guest address that libvirt gave stays"
    assert sidecar.process.poll() is None


def test_a_launcher_that_looks_without_pause_never_meets_a_half_started_server(pod):
    # The socket file is there a moment before the server answers; an Info that fails ends virt-launcher.
    pod.allocate()
    restless = replace(RELEASES["v1.8"], period=0.002)
    for _ in range(4):
        manager = HookManager(pod.sockets, restless)
        sidecar = pod.start(pod.environment(ENTRY), ready=False)
        manager.collect(1, 20)
        sidecar.end()


def test_slow_node_holds_the_start_back_and_nothing_else(pod):
    pod.allocate()
    link = pod.folder / "node/sys/bus/mdev/devices" / A100_MDEV
    target = link.readlink()
    link.unlink()
    sidecar = pod.start(pod.environment(ENTRY), ready=False)
    wait_until(lambda: "mdev_missing" in sidecar.log(), what="the first look at the node")
    threading.Timer(1, link.symlink_to, [target]).start()
    launcher = Launcher(pod.sockets, RELEASES["v1.8"])
    launcher.collect(1)
    assert start_vmi(launcher, DOMAIN) == []


def test_claims_that_come_after_the_budget_are_told_of_first_and_attached_then(pod):
    pod.start(pod.environment(ENTRY), budget=(0, 0.6))
    launcher = Launcher(pod.sockets, RELEASES["v1.8"])
    launcher.collect(1)
    with pytest.raises(SyncError) as error:
        launcher.sync(DOMAIN)
    assert error.value.text.endswith("(reason: unresolved)")
    pod.allocate()
    start_vmi(launcher, DOMAIN)
    assert uuids(launcher.defined) == {GPU: A100_MDEV}


def test_refusals_of_a_whole_sync_stay_within_its_budget(pod):
    """A call is over after 5 s, and a sync after the first call that fails."""
    pod.start(pod.environment(ENTRY), budget=(0, 5))
    launcher = Launcher(pod.sockets, RELEASES["v1.8"], sync_budget=20)
    launcher.collect(1)
    started = time.monotonic()
    with pytest.raises(SyncError, match="unresolved"):
        launcher.sync(DOMAIN)
    assert time.monotonic() - started < 10
    assert launcher.defined is None


def test_device_that_goes_between_two_passes_is_refused_and_the_domain_of_the_first_has_it(pod):
    pod.allocate()
    pod.start(pod.environment(ENTRY))
    launcher = Launcher(pod.sockets, RELEASES["v1.8"])
    launcher.collect(1)
    answer = launcher.hooks.on_define_domain(DOMAIN, b"{}")
    (pod.folder / "node/sys/bus/mdev/devices" / A100_MDEV).unlink()
    with pytest.raises(SyncError, match="mdev_missing"):
        launcher.hooks.on_define_domain(answer, b"{}")
    assert uuids(answer) == {GPU: A100_MDEV}


def test_migration_target_is_prepared_with_its_own_device_and_keeps_nothing(pod):
    pod.allocate()
    pod.start(pod.environment(ENTRY))
    launcher = Launcher(pod.sockets, RELEASES["v1.9"])
    launcher.collect(1)
    launcher.prepare_target(DOMAIN)
    launcher.prepare_target(DOMAIN)
    assert launcher.defined is None


def test_end_of_the_vm_is_not_ours_to_hear_of(pod):
    pod.allocate()
    sidecar = pod.start(pod.environment(ENTRY))
    launcher = Launcher(pod.sockets, RELEASES["v1.9"])
    launcher.collect(1)
    launcher.hooks.shutdown()
    assert "Shutdown" not in launcher.hooks.callbacks
    assert sidecar.process.poll() is None


def test_vm_without_interfaces_is_defined_in_one_pass_up_to_1_5(pod):
    pod.allocate()
    pod.start(pod.environment(ENTRY))
    launcher = Launcher(pod.sockets, RELEASES["v1.5"])
    launcher.collect(1)
    launcher.sync(small_domain(placeholder("gpu0"), GRAPHICS))
    assert [uuids(answer) for _, answer in launcher.passes] == [{GPU: A100_MDEV}]


def test_vmi_of_5_mib_is_taken(pod):
    pod.allocate()
    pod.start(pod.environment(ENTRY))
    launcher = Launcher(pod.sockets, RELEASES["v1.9"])
    launcher.collect(1)
    launcher.sync(DOMAIN, b'{"metadata": {"annotations": {"x": "' + b"y" * (5 << 20) + b'"}}}')
    assert uuids(launcher.defined) == {GPU: A100_MDEV}


def test_domain_that_is_too_large_for_virt_launcher_itself_fails_the_sync_and_not_the_sidecar(pod):
    # grpc-go takes answers of 4 MiB: what comes back is no smaller than what went out.
    pod.allocate()
    pod.start(pod.environment(ENTRY))
    launcher = Launcher(pod.sockets, RELEASES["v1.9"])
    launcher.collect(1)
    with pytest.raises(SyncError) as error:
        launcher.sync(DOMAIN.replace(b"</domain>", b"<!--" + b"x" * (5 << 20) + b"--></domain>"))
    assert error.value.code.name == "RESOURCE_EXHAUSTED"
    assert start_vmi(launcher, DOMAIN) == []
