"""The judgement of a VM with its allocated devices by a real libvirt and QEMU.

What is right follows from the devices alone, never from what the edit wrote.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Any

from lxml import etree
from support import domains
from support.libvirtcompare import changes, misplaced, moved
from support.libvirtdomains import for_emulation, next_pass, with_vfio_driver
from support.libvirtembed import Libvirt, Rejected

from dra.contract import PLACEHOLDER_UUID_PREFIX
from dra.device import Device
from dra.errors import Refused
from dra.identity import Identity, MdevUUID

Edit = Callable[[bytes], bytes]


class Stage(StrEnum):
    """What a domain goes through, in this order."""

    DEFINE = "define"
    READ_BACK = "read-back"
    SECOND_PASS = "second pass"
    QEMU = "QEMU arguments"


@dataclass(slots=True)
class Verdict:
    """What was wrong in which stage, and what libvirt dropped without a word."""

    passed: list[Stage] = field(default_factory=list)
    faults: dict[Stage, list[str]] = field(default_factory=dict)
    drops: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """What this libvirt is too old to know, though those of KubeVirt are not."""

    def close(self, stage: Stage, faults: Sequence[str]) -> None:
        if faults:
            self.faults[stage] = list(faults)
        else:
            self.passed.append(stage)


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges what `edit` makes of the domain of one VM."""

    libvirt: Libvirt
    edit: Edit
    devices: Mapping[str, Device]
    """Each allocated device, by the alias that it must have."""
    extra: Sequence[str] = ()
    """What must stand in the QEMU command for the sake of other hooks."""
    empty_type: bool = False
    """KubeVirt is one that writes an empty `type` into addresses (up to 1.6)."""

    def verdict(self, domain_xml: bytes) -> Verdict:
        """Take a domain through the stages, as far as libvirt and the edit go along."""
        verdict = Verdict()
        try:
            for stage, faults in self._stages(domain_xml, verdict):
                verdict.close(stage, faults)
        except (Rejected, Refused, etree.XMLSyntaxError) as error:
            reached = len(verdict.passed) + len(verdict.faults)
            verdict.close(list(Stage)[reached], [f"{type(error).__name__}: {error}"])
        return verdict

    def _stages(self, domain_xml: bytes, verdict: Verdict) -> Iterator[tuple[Stage, list[str]]]:
        first = self.edit(domain_xml)
        kept = self.libvirt.keep(for_emulation(first))
        yield Stage.DEFINE, []
        yield Stage.READ_BACK, self._misread(first, kept, verdict)
        second = self.edit(next_pass(domain_xml, kept, empty_type=self.empty_type))
        kept_again = self.libvirt.keep(for_emulation(second))
        yield Stage.SECOND_PASS, self._misread(second, kept_again, verdict) + moved(kept, second, kept_again)
        arguments = self.libvirt.qemu_arguments(with_vfio_driver(for_emulation(second)))
        others = _host_devices_of_others(domain_xml, self.devices)
        yield Stage.QEMU, misstarted(arguments, self.devices, others, self.extra)

    def _misread(self, written: bytes, kept: bytes, verdict: Verdict) -> list[str]:
        """Return what is wrong with a domain as it was written and as libvirt kept it."""
        found = changes(written, kept, self.libvirt.version)
        verdict.drops += found.lost
        verdict.unknown += found.unknown
        return [
            *(f"written: {fault}" for fault in misplaced(written, self.devices)),
            *(f"kept: {fault}" for fault in misplaced(kept, self.devices)),
            *(f"dropped: {fact}" for fact in found.lost),
            *(f"added: {fact}" for fact in found.added),
        ]


def misstarted(
    arguments: Sequence[str], devices: Mapping[str, Device], others: Mapping[str, str], extra: Sequence[str]
) -> list[str]:
    """Return what is wrong with the command that would start QEMU.

    It must attach the allocated `devices` and those of `others`, alias and source, and nothing else; have one ramfb at
    most, on a device with a display; hold no placeholder; and pass on all that is `extra`.
    """
    shown = qemu_devices(arguments)
    attached = [device for device in shown if device["driver"].startswith("vfio-")]
    wanted = Counter(
        {(alias, _qemu_source(device.identity)) for alias, device in devices.items()} | set(others.items())
    )
    found = Counter((device["id"], device.get("sysfsdev") or device.get("host")) for device in attached)
    consoles = [device for device in shown if device.get("ramfb") or device["driver"] == "ramfb"]
    in_the_dark = [device["id"] for device in attached if device.get("ramfb") and device.get("display") != "on"]
    return [
        *(f"{alias} is not attached as {source}" for alias, source in wanted - found),
        *(f"{alias} is attached as {source}" for alias, source in found - wanted),
        *(f"there is a placeholder: {word}" for word in arguments if PLACEHOLDER_UUID_PREFIX in word),
        *(["there is more than one ramfb"] if len(consoles) > 1 else []),
        *(f"{alias} has ramfb without a display" for alias in in_the_dark),
        *(f"{word} is not passed on" for word in extra if not any(word in argument for argument in arguments)),
    ]


def qemu_devices(arguments: Sequence[str]) -> list[dict[str, Any]]:
    """Return the devices in the words of a QEMU command."""
    return [json.loads(value) for name, value in pairwise(arguments) if name == "-device" and value.startswith("{")]


def _host_devices_of_others(domain_xml: bytes, ours: Mapping[str, Device]) -> dict[str, str]:
    """Return the host devices that a domain has beside ours, each alias with what QEMU must be given for it."""
    found = {}
    for alias, element in domains.host_devices(domain_xml).items():
        address = domains.source(element)
        if alias not in ours:
            numbers = (address.get(name, "").removeprefix("0x") for name in ("domain", "bus", "slot", "function"))
            pci = "{}:{}:{}.{}".format(*numbers)
            found[str(alias)] = f"/sys/bus/mdev/devices/{address['uuid']}" if "uuid" in address else pci
    return found


def _qemu_source(identity: Identity) -> str:
    return f"/sys/bus/mdev/devices/{identity}" if isinstance(identity, MdevUUID) else str(identity)
