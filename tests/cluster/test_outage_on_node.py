"""On a node, with dravirt away: a VM that runs needs it for nothing, and gets its device again once it is back."""

import os
import signal

import pytest
from support.domains import host_devices

from cluster import handler, machines, watching
from cluster.process import until
from cluster.watching import KUBEVIRT

pytestmark = pytest.mark.node


@pytest.fixture(autouse=True)
def cluster(drivers, dravirt, api, namespace):
    """KubeVirt, dravirt, the node and a claim template `vgpu`; at the end dravirt is up again."""
    api.apply(machines.template(namespace, "vgpu", machines.request("time-sliced")))
    yield
    dravirt.up()


@pytest.fixture
def boot(stack, api, node, namespace):
    """Bring a VM whose pod runs to Running, as virt-handler would, and return its domain's host devices."""

    def _boot(pod):
        watching.in_phase(api, namespace, "Scheduled")
        vmi = watching.vmi_of(api, namespace)
        definition = handler.define(node, pod, vmi)
        handler.report(stack.handler, vmi, definition)
        handler.set_phase(stack.handler, vmi, "Running")
        watching.in_phase(api, namespace, "Running")
        return host_devices(definition.domain.encode())

    return _boot


def test_it_goes_on_and_is_restarted_once_dravirt_is_back(api, node, dravirt, boot, namespace):
    vm = api.apply(machines.vm(namespace, asks="vgpu"))
    pod = watching.running(api, watching.launcher(api, namespace))
    assert list(boot(pod)) == ["ua-gpu-gpu0"]
    dravirt.down()

    os.kill(node.pid(pod, "dravirt-hook"), signal.SIGKILL)
    restarts = lambda: watching.status_of(api.refresh(pod), "dravirt-hook")["restartCount"]  # noqa: E731
    until(lambda: restarts() == 1, seconds=90, what="the sidecar's restart")
    pod = watching.running(api, pod)
    # (the probe sees the socket that the killed one left, a moment before the next one serves)
    definition = handler.define_at_last(node, pod, watching.vmi_of(api, namespace))
    assert list(host_devices(definition.domain.encode())) == ["ua-gpu-gpu0"], "its hook still answers"
    watching.restart(api, namespace)
    message = watching.told(api, vm, "Failure", "True")
    assert 'failed calling webhook "vmi.dravirt.io"' in message
    assert not api.list(KUBEVIRT, "VirtualMachineInstance", namespace), "it has stopped"
    until(lambda: not api.list(machines.CLAIMS, "ResourceClaim", namespace), seconds=60, what="the device given back")

    dravirt.up()
    again = watching.running(api, watching.replaced(api, pod, seconds=120))
    assert list(boot(again)) == ["ua-gpu-gpu0"]
