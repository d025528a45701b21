"""Domains for tests of the edit: devices, a small domain as KubeVirt writes it, and its way to the next pass."""

from collections.abc import Iterable, Iterator
from typing import Any

from lxml import etree

from dra.contract import placeholder_uuid
from dra.device import Device, Kind
from dra.identity import MdevUUID, PciAddress

QEMU = 'xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0"'
GRAPHICS = '<graphics type="vnc"/>'


def mdev(name: str, number: int = 0, **wishes: Any) -> Device:
    """Return a vGPU that is a mediated device, another one for each `number`."""
    uuid = MdevUUID.parse(f"b0a6f6ec-5f0f-4b8e-9c6e-0d3b6f0a7a{number:02x}")
    return Device(name, uuid, kind=Kind.VGPU_MDEV, **wishes)


def vgpu_vf(name: str, number: int = 0, **wishes: Any) -> Device:
    """Return a vGPU that is a virtual function."""
    return Device(name, PciAddress(0, 0x18, number // 8, number % 8), kind=Kind.VGPU_VF, **wishes)


def passthrough(name: str, number: int = 0, **wishes: Any) -> Device:
    """Return a whole GPU."""
    return Device(name, PciAddress(0x10001, 0x8A + number, 0, 0), kind=Kind.PASSTHROUGH, **wishes)


def placeholder(name: str, number: int = 0, *, display: str = "") -> str:
    """Return the host device that KubeVirt renders for a placeholder GPU."""
    return (
        f'<hostdev type="mdev" mode="subsystem" model="vfio-pci"{display}><source>'
        f'<address uuid="{placeholder_uuid(number)}"></address></source><alias name="ua-gpu-{name}"></alias></hostdev>'
    )


def small_domain(*devices: str, root: str = QEMU, rest: str = "") -> bytes:
    """Return a domain with these device elements and a disk, and with `rest` after `<devices>`."""
    elements = "".join(f"\n\t\t{device}" for device in devices)
    disk = '<disk type="file"><target dev="vda" bus="virtio"></target><alias name="ua-disk"></alias></disk>'
    return (
        f'<domain type="kvm" {root}>\n\t<name>ns_vm</name>\n\t<memory unit="b">1073741824</memory>\n'
        f"\t<devices>{elements}\n\t\t{disk}\n\t</devices>{rest}\n</domain>"
    ).encode()


def parse(domain_xml: bytes) -> Any:
    """Return the root of a domain."""
    return etree.fromstring(domain_xml, etree.XMLParser(strip_cdata=False, resolve_entities=False))


def host_devices(domain_xml: bytes) -> dict[str | None, Any]:
    """Return the host devices of a domain by alias, in its order; an alias that is there twice fails."""
    elements = parse(domain_xml).findall("devices/hostdev")
    found = {alias(element): element for element in elements}
    assert len(found) == len(elements), "an alias is there twice"
    return found


def alias(element: Any) -> str | None:
    found = element.find("alias")
    return None if found is None else found.get("name")


def source(host_device: Any) -> dict[str, str]:
    """Return the attributes of the one source address of a host device."""
    (address,) = host_device.findall("source/address")
    return dict(address.attrib)


def identity(host_device: Any) -> str:
    """Return the mdev UUID or the PCI address of a host device, as sysfs names it."""
    address = source(host_device)
    if "uuid" in address:
        return address["uuid"]
    domain, bus, slot, function = (int(address[name], 16) for name in ("domain", "bus", "slot", "function"))
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"


def guest_address(host_device: Any) -> dict[str, str] | None:
    """Return the address that a host device has in the guest, None where it has none."""
    found = host_device.findall("address")
    assert len(found) <= 1
    return dict(found[0].attrib) if found else None


def shown(host_device: Any) -> tuple[str | None, str | None]:
    """Return `display` and `ramfb` of a host device."""
    return host_device.get("display"), host_device.get("ramfb")


def placeholder_names(domain_xml: bytes) -> list[str]:
    """Return the names of the placeholders in a domain, in its order."""
    return [
        str(name).removeprefix("ua-gpu-")
        for name, element in host_devices(domain_xml).items()
        if source(element).get("uuid", "").startswith("00000000-0000-4000-8000-")
    ]


def outside(domain_xml: bytes, aliases: Iterable[str], *, appended: bool = False) -> list[Any]:
    """Return every node of a domain but those in the host devices with these `aliases`.

    Each comes with its attributes in their order, its text, tail and namespace declarations. The place of the host
    devices left out stays as their alias and tail, unless they were `appended`.
    """
    return list(_outside(parse(domain_xml).getroottree().getroot(), set(aliases), appended=appended))


def _outside(node: Any, aliases: set[str], *, appended: bool) -> Iterator[Any]:
    if node.tag == "hostdev" and alias(node) in aliases:
        if not appended:
            yield alias(node), node.tail
        return
    name = node.tag if isinstance(node.tag, str) else node.tag.__name__
    attributes = list(node.attrib.items()) if isinstance(node.tag, str) else []
    yield name, attributes, node.text or "", node.tail or "", dict(node.nsmap)
    for child in node:
        yield from _outside(child, aliases, appended=appended)


def next_pass(answer: bytes, *, empty_type: bool = False) -> bytes:
    """Return what the hooks see in the pass after the one that they gave this `answer` in.

    libvirt has normalised the host devices and given them guest addresses, and KubeVirt's Go structs have dropped what
    they do not know of them. Those of KubeVirt up to 1.6 write an `empty_type`.
    Source: KubeVirt pkg/virt-launcher/virtwrap/api/schema.go, HostDevice and Address.
    """
    root = parse(answer)
    for bus, element in enumerate(root.findall("devices/hostdev"), start=9):
        _normalise(element, bus, empty_type=empty_type)
    return etree.tostring(root)


def _normalise(element: Any, bus: int, *, empty_type: bool) -> None:
    is_mdev = element.get("type") == "mdev"
    attributes = {"type": element.get("type"), "managed": element.get("managed", "no"), "mode": "subsystem"}
    if is_mdev:
        attributes |= {"model": element.get("model"), "display": element.get("display", "off")}
    attributes |= {name: element.get(name) for name in ("display", "ramfb") if element.get(name)}
    empty = {"type": ""} | ({"bus": ""} if is_mdev else {}) if empty_type else {}
    known = {name: value for name, value in source(element).items() if name != "type"}
    guest = guest_address(element) or {
        "type": "pci", "domain": "0x0000", "bus": f"{bus:#04x}", "slot": "0x00", "function": "0x0"
    }  # fmt: skip
    kept = [child for child in element if child.tag in ("boot", "alias")]
    tail = element.tail
    element.clear()
    element.tail = tail
    for name, value in attributes.items():
        element.set(name, value)
    etree.SubElement(etree.SubElement(element, "source"), "address", empty | known)
    etree.SubElement(element, "address", guest)
    element.extend(kept)
