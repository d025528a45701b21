"""The edit of the libvirt domain: the allocated devices take the place of KubeVirt's placeholders, or are appended.

virt-launcher asks two or three times per start, each time with what its Go structs kept of the last answer and the
guest addresses that libvirt assigned meanwhile, and defines the last answer as it is. So each host device of ours is
found by its alias and made anew where it stands, and everything else is left as it came.
Source: KubeVirt pkg/virt-launcher/virtwrap/nichotplug.go, util/libvirt_helper.go; libvirt formatdomain, Host device
assignment.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lxml import etree

from dra.contract import APPEND_ALIAS, PLACEHOLDER_ALIAS
from dra.device import Device, check_unique
from dra.errors import Refused
from dra.identity import Identity, MdevUUID
from dra.intent import Mode
from dra.reasons import Reason
from hooksidecar.display import Display, Surroundings, choose_displays
from hooksidecar.domainxml import Element, alias_of, host_devices, mdev_uuid, parse_domain, serialise

_ALIASES = {Mode.PLACEHOLDER: PLACEHOLDER_ALIAS, Mode.APPEND: APPEND_ALIAS}
_MADE_ANEW = ("source", "alias")
_NOT_ON_MDEV = ("driver", "teaming")


def edit_domain(domain_xml: bytes, devices: Sequence[Device], *, mode: Mode, vmi: Mapping[str, Any] | None) -> bytes:
    """Return the domain with each of `devices` attached to it once, as UTF-8 without XML declaration.

    In placeholder mode each takes the place of the host device with the alias `ua-gpu-<name>`, which must be there; in
    append mode that of `ua-dravirt-<name>`, which is appended if need be. `vmi` tells what its owner wished for the
    displays. The edit of an edited domain changes nothing.
    Raises Refused, naming the device and the remedy; nothing else.
    """
    check_unique(devices)
    domain, container = parse_domain(domain_xml)
    ours = _host_devices_of_ours(container, devices, _ALIASES[mode], append=mode is Mode.APPEND)
    others = [element for element in container.iterchildren("*") if element not in ours]
    _check_not_taken(others, ours)
    displays = choose_displays(list(ours.values()), vmi, _surroundings(others))
    for old, device in ours.items():
        new = _host_device(device, _ALIASES[mode] + device.name, displays[device.name], old)
        container.replace(old, new)
    _check_no_placeholder(container)
    return serialise(domain)


def _host_devices_of_ours(
    container: Element, devices: Sequence[Device], prefix: str, *, append: bool
) -> dict[Element, Device]:
    """Return the host devices that are to be ours, in the order of the domain, each with its device."""
    by_alias: dict[str | None, list[Element]] = {}
    for element in container.iterchildren("*"):
        by_alias.setdefault(alias_of(element), []).append(element)
    found = {}
    for device in devices:
        alias = prefix + device.name
        elements = by_alias.get(alias) or ([_append_host_device(container)] if append else [])
        if not elements:
            message = f"device {device.name!r}: the domain has no host device {alias!r} to put it in"
            raise Refused(Reason.NO_PLACEHOLDER, f"{message}: restart the VM, so that dravirt adds the placeholder")
        if [element.tag for element in elements] != ["hostdev"]:
            message = f"device {device.name!r}: the alias {alias!r} must belong to one host device alone"
            raise Refused(Reason.INVALID_DOMAIN, f"{message}: look for another hook that uses it")
        found[elements[0]] = device
    return {element: found[element] for element in container.iterchildren("*") if element in found}


def _append_host_device(container: Element) -> Element:
    """Add an empty host device after the last one, else at the end, and return it."""
    host_device = etree.Element("hostdev")
    others = container.findall("hostdev")
    container.insert(container.index(others[-1]) + 1 if others else len(container), host_device)
    before = host_device.getprevious()
    host_device.tail = container.text if before is None else before.tail
    return host_device


def _check_not_taken(others: Sequence[Element], ours: Mapping[Element, Device]) -> None:
    """Refuse a device that another device of the domain attaches as well. libvirt would, but naming neither."""
    devices: dict[Identity, Device] = {device.identity: device for device in ours.values()}
    for other in others:
        for identity in host_devices(other):
            if device := devices.get(identity):
                message = f"device {device.name!r}: {identity} is also that of {_name(other)}"
                remedy = "remove that from the VM, or keep the device out of the other's resource pool"
                raise Refused(Reason.DEVICE_TAKEN, f"{message}: {remedy}")


def _surroundings(others: Sequence[Element]) -> Surroundings:
    host_devices_of_others = [other for other in others if other.tag == "hostdev"]
    models = [model for other in others if other.tag == "video" for model in other.iterfind("model")]
    return Surroundings(
        graphics=any(other.tag == "graphics" for other in others),
        display=any(other.get("display") == "on" for other in host_devices_of_others),
        ramfb=any(other.get("ramfb") == "on" for other in host_devices_of_others)
        or any(model.get("type") == "ramfb" or model.get("ramfb") == "on" for model in models),
    )


def _host_device(device: Device, alias: str, display: Display, old: Element) -> Element:
    """Return the host device for `device`, with the children that `old` got from libvirt and from other hooks."""
    mdev = isinstance(device.identity, MdevUUID)
    new = etree.Element("hostdev", mode="subsystem", type="mdev" if mdev else "pci")
    # Only for PCI does it mean anything. Non-root libvirt cannot bind drivers, and a vGPU's must not be changed.
    new.set("managed", "no")
    if mdev:
        new.set("model", _model(device))
    if display.display:
        new.set("display", "on")
    if display.ramfb:
        new.set("ramfb", "on")
    etree.SubElement(etree.SubElement(new, "source"), "address", _source_address(device.identity))
    left_out = (*_MADE_ANEW, *_NOT_ON_MDEV) if mdev else _MADE_ANEW
    new.extend([child for child in old if child.tag not in left_out])
    etree.SubElement(new, "alias", name=alias)
    etree.indent(new, "\t", level=2)  # as KubeVirt does
    new.tail = old.tail
    return new


def _model(device: Device) -> str:
    if device.model != "vfio-pci":  # the others, vfio-ap and vfio-ccw, are crypto cards and disks of s390x
        message = f"device {device.name!r}: a mediated device of model {device.model[:40]!r} is no vGPU"
        raise Refused(Reason.UNSUPPORTED_MODEL, f"{message}: ask for a claim of a GPU driver")
    return device.model


def _source_address(identity: Identity) -> dict[str, str]:
    if isinstance(identity, MdevUUID):
        return {"uuid": str(identity)}
    return {
        # libvirt ignores it. KubeVirt writes it for its own PCI devices, and the structs of KubeVirt up to 1.6 turn a
        # missing type into an empty one.
        "type": "pci",
        "domain": f"0x{identity.domain:04x}",
        "bus": f"0x{identity.bus:02x}",
        "slot": f"0x{identity.slot:02x}",
        "function": f"0x{identity.function:x}",
    }


def _check_no_placeholder(container: Element) -> None:
    """Refuse a domain in which a placeholder would reach libvirt: one that no device of ours has."""
    for host_device in container.iter("hostdev"):
        uuids = [mdev_uuid(address) for address in host_device.iter("address")]
        if any(uuid and uuid.is_placeholder for uuid in uuids):
            message = f"{_name(host_device)} is a placeholder that no device was allocated for"
            remedy = "remove its entry from gpus, or add one of that name to dravirt.io/devices"
            raise Refused(Reason.PLACEHOLDER_LEFT, f"{message}: {remedy}")


def _name(element: Element) -> str:
    alias = alias_of(element)
    return f"a {element.tag} without alias" if alias is None else f"{element.tag} {alias[:80]!r}"
