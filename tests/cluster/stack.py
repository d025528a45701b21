"""The layers of a cluster: a suite takes those it needs, each starts when it is first asked for.

with open_stack(sandbox) as stack:
    stack.kubevirt                  # starts the control plane below it as well
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from cluster import controlplane, dravirt, handmade, host, images, kubevirt, node, programs
from cluster.api import Api
from cluster.controlplane import ControlPlane
from cluster.dravirt import Dravirt
from cluster.node import Node
from cluster.process import Processes
from cluster.progress import step
from cluster.sandbox import Sandbox


class Stack:
    """A cluster whose layers start on first use. Raises NotReady where one does not come up."""

    def __init__(self, sandbox: Sandbox, processes: Processes) -> None:
        self.sandbox, self.processes = sandbox, processes

    @cached_property
    def control_plane(self) -> ControlPlane:
        """etcd, kube-apiserver, kube-controller-manager and kube-scheduler."""
        built = programs.build(programs.CONTROL_PLANE)
        with step("starting the control plane"):
            return controlplane.start(self.processes, built, self.state / "control-plane")

    @cached_property
    def api(self) -> Api:
        """The API server, as its administrator."""
        return self.control_plane.api()

    @cached_property
    def kubevirt(self) -> None:
        """KubeVirt's control plane."""
        plane, built = self.control_plane, programs.build(programs.KUBEVIRT)
        with step("starting KubeVirt"):
            kubevirt.start(self.processes, built, plane)

    @cached_property
    def node(self) -> Node:
        """A node that runs pods."""
        plane, built = self.control_plane, programs.build(programs.NODE)
        archives = [*images.launcher_images(built, self.sandbox.state), images.dravirt_image()]
        with step("starting the node"):
            started = node.start(
                self.processes, built, plane, self.state / "node", cgroup=self.sandbox.cgroup, images=archives
            )
        kubevirt.prepare_node(self.api, node.NAME)
        return started

    @cached_property
    def handmade_nodes(self) -> tuple[str, ...]:
        """Nodes without a kubelet: pods are bound to them and stay as they are."""
        return tuple(handmade.make_node(self.api, name) for name in ("paper-1", "paper-2"))

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


@contextmanager
def open_stack(sandbox: Sandbox) -> Iterator[Stack]:
    """Give a stack of which nothing runs yet; at the end, end what runs."""
    with Processes(sandbox.logs) as processes:
        yield Stack(sandbox, processes)


def prepare(layers: str) -> None:
    """Build all that the layers need, outside the sandbox, which has no network. Raises Missing."""
    host.require(host.BASE)
    programs.build((*programs.CONTROL_PLANE, *programs.KUBEVIRT))
    if layers == "node":
        host.require((*host.NODE, *host.IMAGES))
        programs.build(programs.NODE)
        images.dravirt_image()
