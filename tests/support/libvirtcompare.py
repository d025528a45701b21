"""What libvirt keeps of a domain, compared with what it was given and with what the allocated devices must be.

libvirt drops in silence much of what it does not like, so nothing that is written counts as read. What it normalises
on its own is listed in `changes`. Source: libvirt formatdomain, Host device assignment; src/conf/domain_conf.c.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from support import domains

from dra.device import Device
from dra.identity import Identity, MdevUUID

Version = tuple[int, int, int]
_NORMALISED = ("source/address@type=", "source/address@bus=''")
PCI_DISPLAY_SINCE: Version = (10, 3, 0)
"""The first libvirt that knows `display` and `ramfb` of a PCI host device; KubeVirt's has been newer since 1.4."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What libvirt changed in silence."""

    lost: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Lost as well, but because this libvirt is older than those of KubeVirt."""


def changes(written: bytes, kept: bytes, version: Version) -> Changes:
    """Return what libvirt of this version changed in a domain that was written, beyond what it normalises.

    Looked at are the host devices, wherever they stand, the aliases of all devices and the extra QEMU arguments.
    Normalised, and so left out, are these: the `type` of a source address goes, and an empty `bus`, as KubeVirt up to
    1.6 writes for its own mdevs; `mode='subsystem'` and `managed='no'` are filled in; an mdev without `display` gets
    `display='off'`; a host device without guest address gets one.
    """
    found = Changes()
    for number, (ours, theirs) in enumerate(_pairs(written, kept)):
        before, after = Counter(facts(ours)), Counter(facts(theirs))
        for fact in before - after:
            if not fact.startswith(_NORMALISED):
                (found.unknown if _too_new(fact, ours, version) else found.lost).append(f"host device {number}: {fact}")
        filled_in = _filled_in(ours)
        found.added.extend(f"host device {number}: {fact}" for fact in after - before if not fact.startswith(filled_in))
    found.lost.extend(f"alias {alias!r}" for alias in Counter(_aliases(written)) - Counter(_aliases(kept)))
    found.lost.extend(
        f"QEMU argument {value!r}" for value in Counter(_qemu_arguments(written)) - Counter(_qemu_arguments(kept))
    )
    return found


def moved(kept: bytes, second: bytes, kept_again: bytes) -> list[str]:
    """Return which host devices are not what libvirt `kept` in the pass before, or not at their guest address.

    `second` is the answer of this pass and `kept_again` what libvirt kept of it.
    """
    return [
        f"host device {number} was {before} and is {after}"
        for number, (before, after) in enumerate(_pairs(kept, kept_again, lambda element: sorted(facts(element))))
        if before != after
    ] + [
        f"host device {number} was given the guest address {before} and is answered with {after}"
        for number, (before, after) in enumerate(_pairs(kept, second, _guest_address))
        if before != after
    ]


def misplaced(domain_xml: bytes, devices: Mapping[str, Device]) -> list[str]:
    """Return in what the host devices of a domain differ from what the allocated devices, by alias, must be there."""
    faults = []
    elements = _host_devices(domain_xml)
    for alias, device in devices.items():
        found = [element for element in elements if domains.alias(element) == alias]
        if len(found) != 1:
            faults.append(f"there are {len(found)} host devices {alias!r}")
            continue
        attributes = {name: value for name, value in found[0].attrib.items() if name not in ("display", "ramfb")}
        if attributes != _attributes(device.identity):
            faults.append(f"{alias!r} is {attributes}")
        sources = [
            {name: value for name, value in address.attrib.items() if name != "type"}
            for address in found[0].iterfind("source/address")
        ]
        if sources != [_source(device.identity)]:
            faults.append(f"{alias!r} has the source {sources}")
    return faults


def facts(element: Any, path: str = "") -> Iterator[str]:
    """Yield each attribute, text and child of an element, with its path."""
    if element is None:
        return
    yield from (f"{path}@{name}={value!r}" for name, value in element.attrib.items())
    if text := (element.text or "").strip():
        yield f"{path}: {text}"
    for child in element.iterchildren("*"):
        below = f"{path}/{child.tag}".lstrip("/")
        yield below
        yield from facts(child, below)


def _qemu_arguments(domain_xml: bytes) -> list[str]:
    """Return the extra QEMU arguments of a domain, in whatever namespace: in a wrong one libvirt ignores them."""
    arguments = domains.parse(domain_xml).iterfind("{*}commandline/{*}arg")
    return [str(argument.get("value")) for argument in arguments]


def _pairs(one: bytes, other: bytes, of: Any = lambda element: element) -> Iterator[tuple[Any, Any]]:
    """Return the host devices of two domains side by side; where one has none, None stands for it."""
    for ours, theirs in zip_longest(_host_devices(one), _host_devices(other)):
        yield of(ours), of(theirs)


def _host_devices(domain_xml: bytes) -> list[Any]:
    return list(domains.parse(domain_xml).iter("hostdev"))


def _guest_address(element: Any) -> dict[str, str] | None:
    return None if element is None else domains.guest_address(element)


def _aliases(domain_xml: bytes) -> list[str]:
    return [str(alias.get("name")) for alias in domains.parse(domain_xml).iterfind("devices/*/alias")]


def _filled_in(written: Any) -> tuple[str, ...]:
    """Return how those facts start that libvirt fills in beside what was `written`."""
    if written is None:
        return ()
    is_mdev = written.get("type") == "mdev"
    display = ("@display='off'",) if is_mdev and written.get("display") is None else ()
    address = ("address",) if written.find("address") is None else ()
    return ("@mode='subsystem'", "@managed='no'", *display, *address)


def _too_new(fact: str, written: Any, version: Version) -> bool:
    is_display = fact.startswith(("@display=", "@ramfb="))
    return is_display and written.get("type") == "pci" and version < PCI_DISPLAY_SINCE


def _attributes(identity: Identity) -> dict[str, str]:
    if isinstance(identity, MdevUUID):
        return {"mode": "subsystem", "type": "mdev", "managed": "no", "model": "vfio-pci"}
    return {"mode": "subsystem", "type": "pci", "managed": "no"}


def _source(identity: Identity) -> dict[str, str]:
    if isinstance(identity, MdevUUID):
        return {"uuid": str(identity)}
    domain, bus, slot_and_function = str(identity).split(":")
    slot, function = slot_and_function.split(".")
    return {"domain": f"0x{domain}", "bus": f"0x{bus}", "slot": f"0x{slot}", "function": f"0x{function}"}
