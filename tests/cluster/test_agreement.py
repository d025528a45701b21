"""KubeVirt's own hook manager and the stand-in in Python, `support.launcher`: the same cases, the same outcome.

The stand-in is what most of dravirt's tests have in place of virt-launcher. What it plays is held here against
KubeVirt's code, which looks for hooks in one folder alone: in a sandbox that folder is the test's.
"""

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from integration.launcher.cases import CASES
from integration.launcher.stage import Stage
from support.claimed import entry
from support.domains import host_devices
from support.launcher import RELEASES, Fault, Launcher, SyncError
from support.sidecars import launcher_pod

from cluster import handler, machines, programs
from cluster.process import until
from dra.contract import placeholder_uuid

pytestmark = pytest.mark.node
HOOKS = Path("/var/run/kubevirt-hooks")
WORDS = {
    Fault.TIMEOUT: "Failed to collect all expected sidecar hook sockets within given timeout",
    Fault.INFO: "DeadlineExceeded",
    Fault.VERSION: "Hook sidecar does not expose a supported version",
}
"""What KubeVirt's hook manager says of each fault. Source: KubeVirt pkg/hooks/manager.go."""
STARTS_LATER = 3
"""So many times later do late hooks come: KubeVirt's program takes a while to begin to look."""


class HookManager:
    """A process with KubeVirt's hook manager, which looks at `HOOKS`."""

    def __init__(self, sockets, process, log):
        self._sockets, self._process, self._log = sockets, process, log

    def collected(self):
        """Wait until it has all its hooks or has given up; True where it has them."""
        socket = self._sockets / "stand-in.sock"
        until(lambda: socket.exists() or self._process.poll() is not None, seconds=30, what="the hooks or the end")
        return self._process.poll() is None

    def said(self):
        return self._log.read_text()

    def define(self, devices=()):
        vmi = machines.vmi("ns", domain={"devices": {"gpus": list(devices)}})
        vmi["metadata"]["uid"] = "c1a0a2f0-0000-4000-8000-000000000001"
        vmi["spec"]["architecture"] = "amd64"
        return handler.define_at(self._sockets, vmi)

    def end(self):
        self._process.terminate()
        return self._process.wait(30)


@pytest.fixture(autouse=True)
def in_time():
    """Let nothing else on the machine keep the hooks waiting: KubeVirt gives each a second to say what it is."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, -10)
    yield
    os.setpriority(os.PRIO_PROCESS, 0, before)


@pytest.fixture
def folder():
    """The shared folder, where KubeVirt looks for it as well; its path is short enough for sockets."""
    path = Path(tempfile.mkdtemp(prefix="dravirt-"))
    with looking_at(path):
        yield path
    shutil.rmtree(path)


@contextmanager
def looking_at(path):
    HOOKS.symlink_to(path)
    try:
        yield
    finally:
        HOOKS.unlink()


@pytest.fixture
def hook_manager(tmp_path):
    """Start a hook manager that expects so many hooks within so many seconds."""
    built = programs.build(programs.NODE)
    started = []

    def _start(expected, timeout):
        (tmp_path / "sockets").mkdir()
        log = tmp_path / "log"
        command = [built["launcher"], f"--hook-sidecars={expected}", f"--qemu-timeout={timeout}s"]
        environment = {**os.environ, "MDEV_PCI_RESOURCE_DRAVIRT_IO_GPU": placeholder_uuid(0)}
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, f"--kubevirt-share-dir={tmp_path}"], env=environment, stdout=output, stderr=output
            )
        started.append(process)
        return HookManager(tmp_path / "sockets", process, log)

    yield _start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize("case", [case for case in CASES if case.nested is not None], ids=str)
def test_it_makes_the_same_of_the_sockets_in_the_shared_folder(folder, hook_manager, case):
    entries = tuple(replace(each, appears=each.appears * STARTS_LATER) for each in case.entries)
    with Stage(folder, replace(case, entries=entries)) as stage:
        manager = hook_manager(case.expected, case.timeout)
        if isinstance(case.nested, Fault):
            assert not manager.collected()
            assert WORDS[case.nested] in manager.said()
            return
        assert manager.collected(), manager.said()
        definition = manager.define()
        assert definition.error is None
        assert len(definition.passes) == 2
        for given, answer in definition.passes:
            assert answer == given + "".join(path for path, _ in case.nested), "each is given the answer of the last"
        assert stage.called("OnDefineDomain") == set(case.nested)
        assert manager.end() == 0
        assert {path for path, _ in stage.called("Shutdown")} == set(case.shutdown)


@pytest.mark.parametrize("layout", ["a40-mdev", "a100-mig-mdev", "l40s-vf", "a40-passthrough"])
def test_its_passes_are_the_same(hook_manager, layout):
    with launcher_pod(layout) as pod, looking_at(pod.sockets):
        pod.allocate(layout)
        pod.start(pod.environment(entry()))
        manager = hook_manager(1, 30)
        assert manager.collected(), manager.said()
        kubevirt = manager.define([{"name": "gpu0", "deviceName": "dravirt.io/gpu"}]).passes
        launcher = Launcher(pod.sockets, RELEASES["v1.8"])
        launcher.collect(1)
        launcher.sync(kubevirt[0][0].encode())

    ours = [(given.decode(), answer.decode()) for given, answer in launcher.passes]
    assert ours[0] == kubevirt[0], "of the same domain the hook makes the same"
    assert [gpu(domain) for domain in ours[1]] == [gpu(domain) for domain in kubevirt[1]]


def gpu(domain):
    """Return the host device of gpu0 but for its guest address, which is libvirt's to choose."""
    element = host_devices(domain.encode())["ua-gpu-gpu0"]
    children = [[(node.tag, dict(node.attrib)) for node in child.iter()] for child in element if child.tag != "address"]
    return dict(element.attrib), children


def test_its_refusals_are_the_same(hook_manager):
    with launcher_pod("a40-mdev") as pod, looking_at(pod.sockets):
        pod.start(pod.environment(entry()), budget=(1, 1))
        manager = hook_manager(1, 30)
        assert manager.collected(), manager.said()
        kubevirt = manager.define([{"name": "gpu0", "deviceName": "dravirt.io/gpu"}])
        launcher = Launcher(pod.sockets, RELEASES["v1.8"])
        launcher.collect(1)
        with pytest.raises(SyncError) as refused:
            launcher.sync(kubevirt.passes[0][0].encode())

    assert "gpu0" in refused.value.text
    assert kubevirt.error.endswith(refused.value.text)
    assert len(kubevirt.passes) == 1
