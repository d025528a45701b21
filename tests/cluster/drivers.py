"""The node's stand-in drivers, and the device classes that select their devices."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.hosttree import NodeTree

from cluster import fleet, node
from cluster.api import Api, Object
from cluster.controlplane import ControlPlane
from cluster.driver.settings import in_use, write_settings
from cluster.node import Node
from cluster.process import Processes, until

CLASSES = ("time-sliced", "mig-backed", "vf", "passthrough")
SHARED = "shared"
"""The class of devices in shares, of which the fleet has none: see `fleet.in_shares`."""
VERSION = "resource.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Drivers:
    """The drivers that run on the node, and the host's files that their devices have."""

    tree: NodeTree
    settings: Mapping[str, Path]
    devices: Mapping[str, fleet.Gpu]

    @contextmanager
    def changed(self, driver: str = fleet.DRIVER, **changes: Any) -> Iterator[None]:
        """Run a driver with other settings for a while; those of `devices` are changed one by one."""
        path = self.settings[driver]
        before = json.loads(path.read_text())
        devices = {**before["devices"], **changes.pop("devices", {})}
        _change(path, {**before, **changes, "devices": devices})
        try:
            yield
        finally:
            _change(path, before)

    def slices(self, driver: str = fleet.DRIVER) -> list[dict[str, Any]]:
        """Return what a driver publishes now."""
        slices: list[dict[str, Any]] = json.loads(self.settings[driver].read_text())["slices"]
        return slices

    def identity(self, device: str) -> str:
        """Return the mdev UUID or PCI address of a device."""
        return self.devices[device].identity


def start(processes: Processes, plane: ControlPlane, running: Node, folder: Path) -> Drivers:
    """Start the drivers and wait until their devices are published. Raises NotReady."""
    folder.mkdir()
    devices, root = fleet.fleet(), folder / "host"
    tree = NodeTree(root)
    fleet.layout(tree, devices)
    paths = {}
    for driver in (fleet.DRIVER, fleet.OTHER_DRIVER):
        paths[driver] = folder / f"{driver}.json"
        write_settings(paths[driver], fleet.settings(devices, driver, node.NAME, root))
        command = [sys.executable, "-m", "cluster.driver", str(paths[driver]), f"--node={node.NAME}"]
        command += [f"--kubeconfig={plane.kubeconfig()}", f"--kubelet={running.kubelet}", f"--cdi={running.cdi}"]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        processes.start(driver, command, environment=environment)
    api = plane.api()
    make_classes(api)
    until(lambda: len(api.list(VERSION, "ResourceSlice")) == len(paths), seconds=60, what="the drivers' slices")
    return Drivers(tree, paths, {each.name: each for each in devices})


def _change(path: Path, settings: Mapping[str, Any]) -> None:
    """Write a driver's settings and wait until it goes by them. Raises NotReady."""
    write_settings(path, settings)
    until(
        lambda: in_use(path).exists() and in_use(path).read_bytes() == path.read_bytes(),
        seconds=30,
        what=f"{path} read",
    )


def make_classes(api: Api) -> None:
    """Make a device class for each kind of device, and one for all of the other driver."""
    for name in (*CLASSES, SHARED):
        kind = f'device.attributes["{fleet.DRIVER}"].kind == "{name}"'
        api.apply(device_class(name, f'device.driver == "{fleet.DRIVER}" && {kind}'))
    api.apply(device_class("other", f'device.driver == "{fleet.OTHER_DRIVER}"'))


def device_class(name: str, expression: str) -> Object:
    """Return a DeviceClass that selects by a CEL expression."""
    selectors = [{"cel": {"expression": expression}}]
    return {
        "apiVersion": VERSION, "kind": "DeviceClass", "metadata": {"name": name}, "spec": {"selectors": selectors}
    }  # fmt: skip


def publish(api: Api, node_name: str) -> None:
    """Publish the fleet on a node without a kubelet: pods are scheduled to it, nothing is prepared."""
    devices = fleet.fleet()
    for driver in (fleet.DRIVER, fleet.OTHER_DRIVER):
        settings = fleet.settings(devices, driver, node_name, Path("/"))
        (piece,) = settings["slices"]
        pool = {"name": piece["pool"], "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver, "nodeName": node_name, "pool": pool, "devices": piece["devices"]}
        api.apply(
            {"apiVersion": VERSION, "kind": "ResourceSlice", "metadata": {"name": f"paper-{driver}"}, "spec": spec}
        )
    make_classes(api)
