"""The layers of a cluster: a suite takes those it needs, each starts when it is first asked for.

with open_stack(sandbox) as stack:
    stack.kubevirt                  # starts the control plane below it as well
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path

from cluster import controlplane, dravirt, drivers, handler, handmade, host, images, kubevirt, node, programs
from cluster.api import Api
from cluster.controlplane import ADMIN, KUBEVIRT_HANDLER, ControlPlane
from cluster.dravirt import Dravirt
from cluster.drivers import Drivers
from cluster.kubevirt import KubeVirt
from cluster.loops import Loop
from cluster.node import Node
from cluster.process import Processes
from cluster.progress import step
from cluster.sandbox import Sandbox


class Stack:
    """A cluster whose layers start on first use. Raises NotReady where one does not come up.

    `dra` is False for an older API server whose DRA is switched off.
    """

    def __init__(self, sandbox: Sandbox, processes: Processes, running: ExitStack, *, dra: bool = True) -> None:
        self.sandbox, self.processes, self._running, self._dra = sandbox, processes, running, dra

    @cached_property
    def control_plane(self) -> ControlPlane:
        """etcd, kube-apiserver, kube-controller-manager and kube-scheduler."""
        built, flags = programs.build(programs.CONTROL_PLANE), []
        if not self._dra:
            built |= programs.build(programs.DRA_OFF)
            flags = ["--feature-gates=DynamicResourceAllocation=false"]
        with step("starting the control plane"):
            plane = controlplane.start(self.processes, built, self.state / "control-plane", flags)
        self._running.callback(plane.close)
        return plane

    @cached_property
    def api(self) -> Api:
        """The API server, as its administrator."""
        return self.control_plane.api()

    @cached_property
    def kubevirt(self) -> KubeVirt:
        """KubeVirt's control plane."""
        plane, built = self.control_plane, programs.build(programs.KUBEVIRT)
        with step("starting KubeVirt"):
            started = kubevirt.start(self.processes, built, plane)
        self.keep(handler.end_vmis, KUBEVIRT_HANDLER)
        return started

    @cached_property
    def handler(self) -> Api:
        """The API server, as virt-handler, which does not run: KubeVirt lets nobody else write a VMI's status."""
        return self.control_plane.api(KUBEVIRT_HANDLER)

    @cached_property
    def node(self) -> Node:
        """A node that runs pods."""
        plane, built = self.control_plane, programs.build(programs.NODE)
        ours = self.sandbox.images or images.dravirt_images()
        archives = [*images.launcher_images(built, self.state), *ours.glob("*.tar")]
        with step("starting the node"):
            started = node.start(
                self.processes, built, plane, self.state / "node", cgroup=self.sandbox.cgroup, images=archives
            )
        kubevirt.prepare_node(self.api, node.NAME)
        return started

    @cached_property
    def handmade_nodes(self) -> tuple[str, ...]:
        """Nodes without a kubelet, one with the fleet: pods are bound to them and stay as they are."""
        names = tuple(handmade.make_node(self.api, name) for name in ("paper-1", "paper-2"))
        drivers.publish(self.api, names[0])
        self.keep(handmade.end_pods)
        return names

    @cached_property
    def drivers(self) -> Drivers:
        """Two stand-in DRA drivers on the node, and their device classes."""
        with step("starting the drivers"):
            return drivers.start(self.processes, self.control_plane, self.node, self.state / "drivers")

    @cached_property
    def dravirt(self) -> Dravirt:
        """dravirt's webhook, from the working tree."""
        plane = self.control_plane
        with step("starting dravirt"):
            return dravirt.start(self.processes, plane, self.state / "dravirt")

    @property
    def state(self) -> Path:
        """The cluster's folder."""
        return self.sandbox.state

    def keep(self, action: Callable[[Api], None], user: str = ADMIN) -> None:
        """Do `action` again and again, as `user`, while the cluster runs."""
        api = self.control_plane.api(user)
        self._running.enter_context(Loop(lambda: action(api)))


@contextmanager
def open_stack(sandbox: Sandbox, *, dra: bool = True) -> Iterator[Stack]:
    """Give a stack of which nothing runs yet; at the end, end what runs."""
    with ExitStack() as running:
        yield Stack(sandbox, running.enter_context(Processes(sandbox.logs)), running, dra=dra)


def prepare(layers: str) -> Path | None:
    """Build all that the layers need, outside the sandbox, which has no network; return dravirt's images for a node.

    Raises Missing.
    """
    host.require(host.BASE)
    if layers == "arm64":
        host.require(host.ARM64)
        return images.dravirt_images("arm64")
    programs.build((*programs.CONTROL_PLANE, *programs.KUBEVIRT))
    if layers == "dra_off":
        programs.build(programs.DRA_OFF)
    if layers in {"cluster", "dra_off"}:
        return None
    host.require((*host.NODE, *host.IMAGES))
    programs.build(programs.NODE)
    return images.dravirt_images()
