"""From one pass of a domain's definition to the next: what libvirt adds and what KubeVirt's Go structs leave out.

Source: KubeVirt pkg/virt-launcher/virtwrap/network/nichotplug.go (WithNetworkIfacesResources), manager.go
(allocateHotplugPorts) and api/schema.go; held against recorded passes in tests/integration/launcher/test_passes.py.
"""

import copy
from typing import Any

from lxml import etree
from support.domains import next_pass, parse

_NIC_SLOTS = 4
_HOSTDEV_ATTRIBUTES = ("type", "managed", "mode", "model", "display", "ramfb")
_HOSTDEV_CHILDREN = ("source", "boot", "address", "alias")
_QEMU = "{http://libvirt.org/schemas/domain/qemu/1.0}"


def with_placeholder_nics(domain: bytes) -> bytes | None:
    """Return the domain of the first pass, with interfaces that make libvirt add root ports for hot-plugging.

    None where there is no such pass: the VM has no interface, or all it can have.
    """
    root = parse(domain)
    interfaces = root.findall("devices/interface")
    if not interfaces or len(interfaces) >= _NIC_SLOTS:
        return None
    for number in reversed(range(_NIC_SLOTS - len(interfaces))):
        name = f"placeholder-{number}"
        text = (
            f'<interface type="ethernet"><source/><target dev="{name}" managed="no"/><alias name="{name}"/></interface>'
        )
        interfaces[-1].addnext(etree.fromstring(text))
    return etree.tostring(root)


def after_libvirt(wanted: bytes, answer: bytes, *, empty_type: bool) -> bytes:
    """Return the domain of the pass after the first: the one that was `wanted` with the devices that libvirt has.

    Whatever else the hooks changed is gone; the interfaces are those that were wanted.
    """
    root = parse(wanted)
    devices = parse(next_pass(answer, empty_type=empty_type)).find("devices")
    for interface in devices.findall("interface"):
        devices.remove(interface)
    for interface in reversed(root.findall("devices/interface")):
        devices.insert(0, copy.deepcopy(interface))
    root.replace(root.find("devices"), devices)
    return etree.tostring(root)


def after_structs(answer: bytes, *, empty_type: bool) -> bytes:
    """Return what KubeVirt's structs keep of an answer: of host devices what they know, and no `qemu:commandline`."""
    root = parse(answer)
    for commandline in root.findall(f"{_QEMU}commandline"):
        root.remove(commandline)
    for host_device in root.findall("devices/hostdev"):
        _keep_known(host_device, empty_type=empty_type)
    return etree.tostring(root)


def _keep_known(host_device: Any, *, empty_type: bool) -> None:
    for name in set(host_device.attrib) - set(_HOSTDEV_ATTRIBUTES):
        del host_device.attrib[name]
    for child in list(host_device):
        if child.tag not in _HOSTDEV_CHILDREN:
            host_device.remove(child)
    for address in host_device.iterfind("source/address"):
        if empty_type:
            missing = {"type": ""} | ({"bus": ""} if address.get("uuid") else {})
            known = missing | dict(address.attrib)
            address.attrib.clear()
            address.attrib.update(known)


def add_root_ports(domain: bytes, count: int = 5) -> bytes:
    """Return the domain of the last pass, with empty root ports."""
    root = parse(domain)
    devices = root.find("devices")
    for index in range(count):
        etree.SubElement(devices, "controller", type="pci", index=str(13 + index), model="pcie-root-port")
    return etree.tostring(root)
