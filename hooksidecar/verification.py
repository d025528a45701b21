"""The check on the node: is what was resolved there, and fit for a VM?"""

from collections.abc import Iterable
from dataclasses import replace

from dra.device import Device
from dra.errors import DravirtError
from hooksidecar.node import inspect
from hooksidecar.sysfs import HostTree


def verify(devices: Iterable[Device], tree: HostTree) -> tuple[Device, ...]:
    """Return the devices with what the node knows of each.

    Raises Refused where one is not there or cannot go into a VM, Failed where the node cannot be read.
    """
    tree = tree.fresh()  # a device may have come or gone since it was looked at
    return tuple(_verify(device, tree) for device in devices)


def _verify(device: Device, tree: HostTree) -> Device:
    try:
        node = inspect(tree, device.identity, profile=device.profile)
    except DravirtError as error:
        origin = f"{device.identity}, named by {device.source}" if device.source else str(device.identity)
        raise type(error)(error.reason, f"device {device.name!r} ({origin}): {error.message}") from error
    return replace(
        device,
        model=node.model,
        kind=node.kind,
        profile=node.profile,
        mig_backed=node.mig_backed,
        iommu_group=node.iommu_group,
    )
