"""The sidecar that is killed, started again or ended, while virt-launcher looks for it or calls it."""

import shutil
import signal
import threading
import time

import pytest
from support.claimed import entry
from support.domains import GRAPHICS, host_devices, placeholder, small_domain, source
from support.launcher import RELEASES, Launcher, SyncError, start_vmi
from support.nodetree import A100_MDEV
from support.otherhooks import other_hook
from support.waiting import wait_until

ENTRY = entry(request="vgpu")
NIC = '<interface type="ethernet"><target dev="tap0"/><alias name="ua-default"/></interface>'
DOMAIN = small_domain(placeholder("gpu0"), NIC, GRAPHICS)


def attached(domain):
    return {name: source(element).get("uuid") for name, element in host_devices(domain).items()}


@pytest.mark.parametrize("release", ["v1.5", "v1.8"])
def test_sockets_of_a_killed_sidecar_only_cost_time(pod, release):
    pod.allocate()
    pod.start(pod.environment(ENTRY)).end(signal.SIGKILL)
    launcher = Launcher(pod.sockets, RELEASES[release])
    threading.Timer(0.3, pod.start, [pod.environment(ENTRY)], {"ready": False}).start()
    launcher.collect(1)
    assert start_vmi(launcher, DOMAIN) == []
    assert attached(launcher.defined) == {"ua-gpu-gpu0": A100_MDEV}


def test_kill_between_collect_and_sync_is_a_failed_sync_and_the_next_one_succeeds(pod):
    pod.allocate()
    sidecar = pod.start(pod.environment(ENTRY))
    launcher = Launcher(pod.sockets, RELEASES["v1.8"])
    launcher.collect(1)
    sidecar.end(signal.SIGKILL)
    with pytest.raises(SyncError, match="context deadline exceeded"):
        launcher.sync(DOMAIN)
    shutil.rmtree(pod.metadata)
    pod.start(pod.environment(ENTRY), ready=False)
    start_vmi(launcher, DOMAIN)
    assert attached(launcher.defined) == {"ua-gpu-gpu0": A100_MDEV}


def test_kill_and_restart_between_two_passes_is_not_noticed(pod):
    """The kubelet starts a native sidecar again at once; each pass dials anew."""
    pod.allocate()
    sidecars = [pod.start(pod.environment(ENTRY))]

    def kill_once(domain: bytes) -> bytes:
        if len(sidecars) == 1:
            sidecars[0].end(signal.SIGKILL)
            shutil.rmtree(pod.metadata)
            sidecars.append(pod.start(pod.environment(ENTRY), ready=False))
            wait_until(lambda: "serving" in sidecars[1].log(), seconds=40, what="the second sidecar")
        return domain

    with other_hook(pod.sockets / "z/z.sock", edit=kill_once):
        launcher = Launcher(pod.sockets, RELEASES["v1.8"])
        launcher.collect(2)
        launcher.sync(DOMAIN)
    assert [attached(answer) for _, answer in launcher.passes] == [{"ua-gpu-gpu0": A100_MDEV}] * 3


def test_stop_during_a_call_lets_the_sync_finish_its_pass(pod):
    sidecar = pod.start(pod.environment(ENTRY), budget=(0, 5))
    launcher = Launcher(pod.sockets, RELEASES["v1.5"])
    launcher.collect(1)
    domain = small_domain(placeholder("gpu0"), GRAPHICS)  # one pass
    call = threading.Thread(target=launcher.sync, args=[domain])
    call.start()
    wait_until(lambda: sidecar.log().count("not attachable") == 2, what="the call")
    sidecar.process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    pod.allocate()
    call.join()
    assert attached(launcher.defined) == {"ua-gpu-gpu0": A100_MDEV}
    assert sidecar.process.wait(10) == 0


def test_domain_that_libvirt_has_is_not_asked_for_again(pod):
    """A VMI that runs does without its sidecar: syncs find the domain."""
    pod.allocate()
    sidecar = pod.start(pod.environment(ENTRY))
    launcher = Launcher(pod.sockets, RELEASES["v1.8"])
    launcher.collect(1)
    defined = launcher.sync(DOMAIN)
    sidecar.end()
    assert launcher.sync(DOMAIN) == defined


def test_kills_in_a_row_leave_the_state_whole(pod):
    """Whenever it is killed, the next one finds the devices: from the state or from the sources."""
    pod.allocate()
    for number in range(12):
        sidecar = pod.start(pod.environment(ENTRY), ready=False)
        time.sleep(0.03 * number)
        sidecar.end(signal.SIGKILL)
    pod.start(pod.environment(ENTRY), ready=False)
    launcher = Launcher(pod.sockets, RELEASES["v1.8"])
    launcher.collect(1)
    assert attached(launcher.sync(DOMAIN)) == {"ua-gpu-gpu0": A100_MDEV}
