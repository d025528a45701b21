"""Domains on their way to a real libvirt: made fit for a machine without KVM, and back as KubeVirt reads them."""

import copy

from lxml import etree
from support import domains

from dra.contract import placeholder_uuid

QEMU_NAMESPACE = "http://libvirt.org/schemas/domain/qemu/1.0"

DISK = "/var/run/kubevirt/container-disks/disk_0.img"


def small_domain(*devices: str) -> bytes:
    """Return a small domain that libvirt takes, with these device elements and the disk `DISK`."""
    rest = (
        '<os><type arch="x86_64" machine="q35">hvm</type></os><vcpu>1</vcpu><features><acpi/></features>'
        '<cpu mode="host-model"/>'
    )
    disk = f'<disk type="file" device="disk"><source file="{DISK}"/>'
    return domains.small_domain(*devices, rest=rest).replace(b'<disk type="file">', disk.encode())


def for_emulation(domain_xml: bytes) -> bytes:
    """Return the domain as a machine without KVM, taps, swtpm and hugetlbfs can have it.

    No host device is touched. What is:
    - `type="kvm"` becomes `qemu`: emulation, since /dev/kvm may not be there;
    - `<maxMemory slots="0">` goes: libvirt 9.0 refuses it;
    - `<hugepages>` and `<tpm>` go: they need a hugetlbfs mount and swtpm;
    - `<interface>`s become `user` ones: the tap of a pod is made before libvirt starts.
    """
    root = domains.parse(domain_xml)
    root.set("type", "qemu")
    for path in ("maxMemory[@slots='0']", "memoryBacking/hugepages", "devices/tpm"):
        for element in root.xpath(path):
            element.getparent().remove(element)
    for interface in root.iterfind("devices/interface"):
        interface.set("type", "user")
        for child in interface.xpath("source | target | mtu"):
            interface.remove(child)
    return etree.tostring(root)


def with_vfio_driver(domain_xml: bytes) -> bytes:
    """Return the domain with `<driver name="vfio"/>` in each PCI host device.

    On a host without VFIO libvirt's conversion to QEMU arguments needs it ("invalid PCI passthrough type 'default'");
    a start does not.
    """
    root = domains.parse(domain_xml)
    for host_device in root.iterfind("devices/hostdev[@type='pci']"):
        if host_device.find("driver") is None:
            etree.SubElement(host_device, "driver", name="vfio")
    return etree.tostring(root)


def next_pass(seen: bytes, kept: bytes, *, empty_type: bool) -> bytes:
    """Return what the hooks see in the pass after the one in which they saw `seen` and libvirt `kept` their answer.

    KubeVirt takes over the devices from libvirt and nothing else, and keeps of them what its Go structs know.
    Source: KubeVirt pkg/virt-launcher/virtwrap/nichotplug.go.
    """
    root = domains.parse(seen)
    root.replace(root.find("devices"), domains.parse(kept).find("devices"))
    return domains.next_pass(etree.tostring(root), empty_type=empty_type)


def multiplied(domain_xml: bytes, count: int) -> bytes:
    """Return the domain with `count` placeholders gpu0, gpu1, ... in the place of its one."""
    root = domains.parse(domain_xml)
    (first,) = root.xpath("devices/hostdev[alias/@name='ua-gpu-gpu0']")
    for number in reversed(range(1, count)):
        other = copy.deepcopy(first)
        other.attrib.pop("display", None)
        other.attrib.pop("ramfb", None)
        other.find("alias").set("name", f"ua-gpu-gpu{number}")
        other.find("source/address").set("uuid", placeholder_uuid(number))
        first.addnext(other)
    return etree.tostring(root)


HOOK_ARGUMENTS = ("-fw_cfg", "name=opt/ovmf/X-PciMmio64Mb,string=262144")
HOOK_DISK = "ua-hook-disk"


def hook_of_another(domain_xml: bytes) -> bytes:
    """Return the domain with what other hooks add: QEMU arguments (for big BARs) and a disk, each once."""
    root = domains.parse(domain_xml)
    if root.find(f"{{{QEMU_NAMESPACE}}}commandline") is None:
        command_line = etree.SubElement(root, f"{{{QEMU_NAMESPACE}}}commandline", nsmap={"qemu": QEMU_NAMESPACE})
        for value in HOOK_ARGUMENTS:
            etree.SubElement(command_line, f"{{{QEMU_NAMESPACE}}}arg", value=value)
    devices = root.find("devices")
    if not devices.xpath("disk[alias/@name=$name]", name=HOOK_DISK):
        disk = (
            '<disk type="file" device="disk"><source file="/var/run/hook/licence.img"/>'
            f'<target dev="vdz" bus="virtio"/><alias name="{HOOK_DISK}"/></disk>'
        )
        devices.append(etree.fromstring(disk))
    return etree.tostring(root)
