"""The node's own view of an allocated device: is it there, can a VM take it, and what is it?

A driver may name a device that is gone, in use by the host or not the one meant. Whatever the source said, the device
is looked up in sysfs before libvirt gets it, and what kind it is comes from there: never from its model, from the
operating system or from a name that was not made to tell.
"""

import contextlib
from dataclasses import dataclass

from dra.device import Kind
from dra.errors import DravirtError, Refused
from dra.identity import Identity, MdevUUID, PciAddress
from dra.reasons import Reason
from hooksidecar.profile import mig_backed, parse_creatable_types, parse_type_id
from hooksidecar.sysfs import HostTree
from hooksidecar.vfio import has_vfio_driver, usable_group

MDEVS = "sys/bus/mdev/devices"
PCI_FUNCTIONS = "sys/bus/pci/devices"

MODEL = "vfio-pci"
"""The only model of a GPU. libvirt's model must equal the mediated device's `device_api`."""
_NVIDIA = "nvidia"
_NVIDIA_VENDOR = "0x10de"


@dataclass(frozen=True, slots=True)
class NodeDevice:
    """What the node knows of a device that a VM can take."""

    model: str
    kind: Kind
    profile: str | None
    mig_backed: bool | None
    iommu_group: str


def inspect(tree: HostTree, identity: Identity, *, profile: str | None = None) -> NodeDevice:
    """Return what the node knows of a device, after checking that a VM can take it.

    `profile` is the vGPU type as the driver's attributes name it, for where the node does not. Raises Refused, one
    reason per fault, with the file looked at and the remedy; Failed where a file cannot be read.
    """
    if isinstance(identity, MdevUUID):
        return _mdev(tree, identity, profile)
    return _pci_function(tree, identity, profile)


def _mdev(tree: HostTree, uuid: MdevUUID, profile: str | None) -> NodeDevice:
    folder = f"{MDEVS}/{uuid}"
    if not tree.exists(folder):
        # Source: KubeVirt pkg/virt-handler/device-manager/mediated_devices_types.go.
        message = (
            f"mediated device {uuid} is not on this node. By default KubeVirt's virt-handler deletes every mediated "
            "device that it does not know: give its type an entry with externalResourceProvider: true under "
            "permittedHostDevices.mediatedDevices of the KubeVirt object, or set mediatedDevicesConfiguration.enabled: "
            "false (KubeVirt >= 1.8). Then restart the VM"
        )
        raise Refused(Reason.MDEV_MISSING, message, path=tree.at(folder))
    model = _mdev_model(tree, uuid, f"{folder}/mdev_type/device_api")
    # The type's folder is no name: it may be called vfio-pci-575 as well as nvidia-575.
    profile = tree.line(f"{folder}/mdev_type/name") or profile
    return NodeDevice(model, Kind.VGPU_MDEV, profile, mig_backed(profile), usable_group(tree, uuid, folder))


def _mdev_model(tree: HostTree, uuid: MdevUUID, path: str) -> str:
    model = tree.line(path)
    if not model:
        raise tree.broken(path, f"does not say what kind of mediated device {uuid} is")
    if model != MODEL:
        message = f"mediated device {uuid} is a {model[:80]!r} device: only GPUs ({MODEL}) can be attached"
        raise Refused(Reason.UNSUPPORTED_MODEL, message, path=tree.at(path))
    return model


def _pci_function(tree: HostTree, address: PciAddress, profile: str | None) -> NodeDevice:
    folder = f"{PCI_FUNCTIONS}/{address}"
    if not tree.exists(folder):
        message = (
            f"PCI function {address} is not on this node: compare the address that the DRA driver publishes with the "
            "node's own (lspci -D); virtual functions are gone after a reboot until they are enabled again"
        )
        raise Refused(Reason.PCI_MISSING, message, path=tree.at(folder))
    driver = tree.link_name(f"{folder}/driver")
    if driver == _NVIDIA:
        return _vgpu_function(tree, address, folder, profile)
    if not has_vfio_driver(tree, folder):
        message = (
            f"PCI function {address} is bound to {driver or 'no driver'}: the DRA driver must bind it to a VFIO "
            "driver, such as vfio-pci, when it prepares the claim"
        )
        raise Refused(Reason.WRONG_DRIVER, message, path=tree.at(f"{folder}/driver"))
    kind = Kind.VF if _is_virtual(tree, folder) else Kind.PASSTHROUGH
    return NodeDevice(MODEL, kind, None, None, usable_group(tree, address, folder))


def _vgpu_function(tree: HostTree, address: PciAddress, folder: str, profile: str | None) -> NodeDevice:
    """Return a function that stays on NVIDIA's own driver: only a virtual one with a vGPU type can be attached.

    Source: KubeVirt pkg/virt-handler/device-manager/pci_device.go, since v1.9.0.
    """
    if not _is_virtual(tree, folder):
        raise _not_virtual(tree, address, folder)
    vendor = tree.line(f"{folder}/vendor")
    if vendor != _NVIDIA_VENDOR:
        raise tree.broken(f"{folder}/vendor", f"{address} is on driver {_NVIDIA}, but its vendor is {vendor!r:.80}")
    type_id = _vgpu_type(tree, address, f"{folder}/nvidia/current_vgpu_type")
    if not has_vfio_driver(tree, folder):
        message = (
            f"virtual function {address} is bound to {_NVIDIA} but is no VFIO device; libvirt would ask to detach it "
            "by hand. The node needs Linux >= 6.1 and a vGPU manager with the vendor-specific VFIO framework"
        )
        raise Refused(Reason.WRONG_DRIVER, message, path=tree.at(f"{folder}/vfio-dev"))
    profile = _type_name(tree, folder, type_id) or profile
    return NodeDevice(MODEL, Kind.VGPU_VF, profile, mig_backed(profile), usable_group(tree, address, folder))


def _is_virtual(tree: HostTree, folder: str) -> bool:
    return tree.link_name(f"{folder}/physfn") is not None


def _not_virtual(tree: HostTree, address: PciAddress, folder: str) -> Refused:
    """Return the error for a function of the host's own: a physical one whose virtual ones are meant, or any other."""
    total = f"{folder}/sriov_totalvfs"
    if tree.exists(total):
        message = (
            f"{address} is a physical function on driver {_NVIDIA}, the virtual function that holds the vGPU is meant: "
            "the DRA driver must publish that one's address (attribute pciBusID), or bind this one to vfio-pci to pass "
            "the whole GPU through"
        )
        return Refused(Reason.PHYSICAL_FUNCTION, message, path=tree.at(total))
    message = (
        f"PCI function {address} is bound to {_NVIDIA}, the host's own driver: the DRA driver must bind it to vfio-pci "
        "when it prepares the claim"
    )
    return Refused(Reason.WRONG_DRIVER, message, path=tree.at(f"{folder}/driver"))


def _vgpu_type(tree: HostTree, address: PciAddress, path: str) -> int:
    """Return the id of the vGPU type that the function holds; 0 stands for none."""
    text = tree.line(path)
    type_id = parse_type_id(text or "0")
    if type_id is None:
        raise tree.broken(path, f"{address} has the vGPU type {text!r:.80}, which is no id")
    if type_id == 0:
        message = (
            f"virtual function {address} has no vGPU type: the DRA driver must write the type's id there when it "
            "prepares the claim (a reboot clears it). Where vGPUs are mediated devices it must publish mdevUUID instead"
        )
        raise Refused(Reason.VGPU_TYPE_UNSET, message, path=tree.at(path))
    return type_id


def _type_name(tree: HostTree, folder: str, type_id: int) -> str | None:
    """Return the name of a vGPU type, where a virtual function of the same board still lists it.

    The function that holds the vGPU lists nothing any more, and on a full board none does.
    """
    with contextlib.suppress(DravirtError):
        for function in tree.children(f"{folder}/physfn"):
            if function.startswith("virtfn"):
                types = _creatable_types(tree, f"{folder}/physfn/{function}/nvidia/creatable_vgpu_types")
                if type_id in types:
                    return types[type_id]
    return None


def _creatable_types(tree: HostTree, path: str) -> dict[int, str]:
    """Return a function's vGPU types, none where they cannot be read.

    The name is for status only: another VM's function that is broken is no reason to refuse this VM's.
    """
    try:
        return parse_creatable_types(tree.read(path) or "")
    except DravirtError:
        return {}
