"""What VFIO asks of a device: a VFIO driver, an IOMMU group that nobody else uses, and the nodes under /dev/vfio.

The kernel gives an IOMMU group to a VM whole or not at all.
Source: Linux, Documentation/driver-api/vfio.rst.
"""

from dra.errors import Refused
from dra.identity import Identity
from dra.reasons import Reason
from hooksidecar.sysfs import HostTree

GROUPS = "sys/kernel/iommu_groups"
NODES = "dev/vfio"

_DRIVER_SUFFIXES = ("vfio-pci", "vfio_pci")  # vfio-pci, xe-vfio-pci, nvgrace_gpu_vfio_pci
_HARMLESS_DRIVERS = (None, "pci-stub")  # Linux, drivers/vfio: vfio_driver_allowed
_BRIDGE_CLASSES = ("0x0604", "0x0607")  # PCI and CardBus bridges, whose configuration header is not a device's
_MAX_GROUP_DIGITS = 10


def has_vfio_driver(tree: HostTree, folder: str) -> bool:
    """True if the device at `folder` is bound to a driver that hands it to VFIO.

    Since Linux 6.1 such a device has a `vfio-dev` folder, whatever the driver is called; libvirt looks for it too
    (src/util/virpci.c). Before, only the name tells.
    """
    driver = tree.link_name(f"{folder}/driver")
    return driver is not None and (driver.endswith(_DRIVER_SUFFIXES) or tree.exists(f"{folder}/vfio-dev"))


def usable_group(tree: HostTree, identity: Identity, folder: str) -> str:
    """Return the IOMMU group of the device at `folder`, which VFIO can use: it is viable and its node is there.

    Raises Refused: `no_iommu_group`, `group_not_viable`, `vfio_missing`, `broken_sysfs`.
    """
    link = f"{folder}/iommu_group"
    group = tree.link_name(link)
    if group is None:
        message = (
            f"{identity} has no IOMMU group: turn the IOMMU on in the firmware and on the kernel's command line "
            "(intel_iommu=on or amd_iommu=on)"
        )
        raise Refused(Reason.NO_IOMMU_GROUP, message, path=tree.at(link))
    if not (group.isascii() and group.isdecimal() and len(group) <= _MAX_GROUP_DIGITS):
        raise tree.broken(link, f"{identity} is in the IOMMU group {group[:80]!r}, which is no number")
    _require_viable(tree, identity, group)
    _require_nodes(tree, identity, group)
    return group


def _require_viable(tree: HostTree, identity: Identity, group: str) -> None:
    """Refuse a group of which the host uses another device. Bridges do not count: no VM gets them."""
    folder = f"{GROUPS}/{group}/devices"
    members = tree.children(folder)
    if str(identity) not in members:
        raise tree.broken(folder, f"does not list {identity}, whose IOMMU group it is")
    for member in members:
        if member != str(identity):
            _require_unused(tree, identity, group, f"{folder}/{member}")


def _require_unused(tree: HostTree, identity: Identity, group: str, member: str) -> None:
    if not tree.exists(member):
        raise tree.broken(member, f"leads to no device: IOMMU group {group} of {identity} cannot be checked")
    driver = tree.link_name(f"{member}/driver")
    if driver in _HARMLESS_DRIVERS or has_vfio_driver(tree, member) or _is_bridge(tree, member):
        return
    message = (
        f"IOMMU group {group} of {identity} is not viable: {member.rpartition('/')[2]} of the same group is bound to "
        f"{driver}. Bind it to vfio-pci or to no driver"
    )
    raise Refused(Reason.GROUP_NOT_VIABLE, message, path=tree.at(f"{member}/driver"))


def _is_bridge(tree: HostTree, folder: str) -> bool:
    return (tree.line(f"{folder}/class") or "").startswith(_BRIDGE_CLASSES)


def _require_nodes(tree: HostTree, identity: Identity, group: str) -> None:
    for node in (f"{NODES}/vfio", f"{NODES}/{group}"):
        if not tree.exists(node):
            message = (
                f"is missing in the pod, {identity} needs it: the DRA driver's CDI spec must add it. NVIDIA's driver "
                "does if the claim configures it with VfioDeviceConfig "
                "{iommu: {enableAPIDevice: true, backendPolicy: LegacyOnly}}"
            )
            raise Refused(Reason.VFIO_MISSING, message, path=tree.at(node))
