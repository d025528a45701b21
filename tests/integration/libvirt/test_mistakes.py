"""Mistakes that the edit of the domain could make, made on purpose: each is caught, by libvirt or by what it keeps.

A row breaks one rule in what the edit wrote, and says in which stage, and by which words, the judgement finds it.
Source of the rules: libvirt formatdomain, Devices and Host device assignment; KubeVirt pkg/virt-launcher.
"""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from lxml import etree
from support import domains
from support.domains import GRAPHICS, mdev, placeholder, vgpu_vf
from support.libvirtdomains import HOOK_ARGUMENTS, HOOK_DISK, QEMU_NAMESPACE, hook_of_another, small_domain
from support.libvirtverdict import Edit, Judge, Stage

from dra.intent import Mode
from hooksidecar.domain import edit_domain

Mutation = Callable[[Any], object]
MDEV, PCI, SECOND_MDEV = "ua-gpu-gpu0", "ua-gpu-gpu1", "ua-gpu-gpu2"
DEVICES = {MDEV: mdev("gpu0", 0), PCI: vgpu_vf("gpu1", 4), SECOND_MDEV: mdev("gpu2", 2)}
DOMAIN = small_domain(GRAPHICS, *(placeholder(device.name, number) for number, device in enumerate(DEVICES.values())))


def judged(libvirt, mutate: Mutation, *, in_text: Edit = bytes):
    """Judge an edit that makes a mistake in the tree of its answer or in its text. Another hook has come before."""

    def edit(seen: bytes) -> bytes:
        answer = edit_domain(hook_of_another(seen), list(DEVICES.values()), mode=Mode.PLACEHOLDER, vmi=None)
        root = domains.parse(answer)
        mutate(root)
        return in_text(etree.tostring(root))

    return Judge(libvirt, edit, DEVICES, (*HOOK_ARGUMENTS, HOOK_DISK)).verdict(DOMAIN)


def no_mistake(root: Any) -> None:
    pass


def on(alias: str, change: Callable[[Any], object]) -> Mutation:
    """Return the change of the host device with this alias."""
    return lambda root: change(root.xpath(f"devices/hostdev[alias/@name='{alias}']")[0])


def attributes(**values: str | None) -> Callable[[Any], None]:
    """Return the change of an element that sets or, with None, removes attributes."""

    def change(element: Any) -> None:
        for name, value in values.items():
            if value is None:
                element.attrib.pop(name, None)
            else:
                element.set(name, value)

    return change


def source(**values: str | None) -> Callable[[Any], None]:
    return lambda element: attributes(**values)(element.find("source/address"))


def renamed(alias: str) -> Callable[[Any], None]:
    return lambda element: element.find("alias").set("name", alias)


def child(tag: str, /, **values: str) -> Callable[[Any], object]:
    return lambda element: etree.SubElement(element, tag, values)


def without(path: str) -> Callable[[Any], None]:
    def change(element: Any) -> None:
        for found in element.findall(path):
            found.getparent().remove(found)

    return change


def guest(**values: str) -> Callable[[Any], None]:
    """Return the change of the guest address that libvirt gave in the pass before."""

    def change(element: Any) -> None:
        if (address := element.find("address")) is not None:
            attributes(**values)(address)

    return change


def same_guest_address(root: Any) -> None:
    first, second = (root.xpath(f"devices/hostdev[alias/@name='{alias}']/address") for alias in (MDEV, PCI))
    for address in second:
        attributes(**first[0].attrib)(address)


def moved_out(root: Any) -> None:
    root.append(root.xpath(f"devices/hostdev[alias/@name='{MDEV}']")[0])


def copied(**values: str) -> Mutation:
    """Return the change that adds a copy of the PCI device with these attributes in its source."""

    def change(element: Any) -> None:
        if not element.xpath("../hostdev[alias/@name='ua-other']"):
            other = copy.deepcopy(element)
            renamed("ua-other")(other)
            source(**values)(other)
            element.addnext(other)

    return on(PCI, change)


def ramfb_of_video(root: Any) -> None:
    devices = root.find("devices")
    on(MDEV, attributes(ramfb="on"))(root)
    if devices.find("video") is None:
        devices.append(etree.fromstring('<video><model type="ramfb"/></video>'))


def in_each(path: str, change: Callable[[Any], object]) -> Mutation:
    return lambda root: [change(element) for element in root.findall(path)]


def row(name: str, mutate: Mutation, stage: Stage, words: str) -> Any:
    return pytest.param(mutate, stage, words, id=name)


DEFINE, READ_BACK, SECOND_PASS, QEMU = Stage
ZERO = dict.fromkeys(("domain", "bus", "slot", "function"))

ALIASES = [
    row("alias-of-another-name", on(MDEV, renamed("ua-gpu-x")), READ_BACK, "kept: there are 0 host devices"),
    row("alias-without-ua", on(MDEV, renamed("gpu-gpu0")), READ_BACK, "dropped: alias 'gpu-gpu0'"),
    row("alias-with-dot", on(PCI, renamed("ua-gpu-gpu.1")), READ_BACK, "dropped: alias 'ua-gpu-gpu.1'"),
    row("alias-with-space", on(MDEV, renamed("ua-gpu gpu0")), READ_BACK, "dropped: alias 'ua-gpu gpu0'"),
    row("alias-missing", on(MDEV, without("alias")), READ_BACK, "written: there are 0 host devices 'ua-gpu-gpu0'"),
    row("alias-of-another-of-ours", on(PCI, renamed(MDEV)), DEFINE, "non unique alias detected: ua-gpu-gpu0"),
    row("alias-of-a-disk", on(MDEV, renamed("ua-disk")), DEFINE, "non unique alias detected: ua-disk"),
    row("alias-of-each-other", lambda root: (on(MDEV, renamed("ua-t"))(root), on(PCI, renamed(MDEV))(root),
        on("ua-t", renamed(PCI))(root)), READ_BACK, "kept: 'ua-gpu-gpu0' is {'mode': 'subsystem', 'type': 'pci'"),
]  # fmt: skip
DISPLAYS = [
    row("two-ramfb", on(SECOND_MDEV, attributes(display="on", ramfb="on")), DEFINE,
        "Only one vgpu device can have 'ramfb' enabled"),
    row("ramfb-of-video-too", ramfb_of_video, QEMU, "there is more than one ramfb"),
    row("ramfb-without-display", on(MDEV, attributes(display=None)), QEMU, "ua-gpu-gpu0 has ramfb without a display"),
    row("display-without-graphics", in_each("devices", without("graphics")), DEFINE,
        "graphics device is needed for attribute value 'display=on'"),
    row("display-yes", on(MDEV, attributes(display="yes")), DEFINE, "Invalid value for attribute 'display'"),
]  # fmt: skip
ELEMENTS = [
    row("mode-missing", on(PCI, attributes(mode=None)), READ_BACK, "written: 'ua-gpu-gpu1' is {'type': 'pci', 'man"),
    row("mode-capabilities", on(MDEV, attributes(mode="capabilities")), DEFINE, "Rejected: "),
    row("managed-pci", on(PCI, attributes(managed="yes")), READ_BACK, "kept: 'ua-gpu-gpu1' is {'mode': 'subsystem', "),
    row("managed-mdev", on(MDEV, attributes(managed="yes")), READ_BACK, "kept: 'ua-gpu-gpu0' is {'mode': 'subsystem'"),
    row("managed-true", on(PCI, attributes(managed="true")), READ_BACK, "dropped: host device 1: @managed='true'"),
    row("model-missing", on(MDEV, attributes(model=None)), DEFINE, "Missing required attribute 'model'"),
    row("model-unknown", on(MDEV, attributes(model="nvidia")), DEFINE, "Invalid value for attribute 'model'"),
    row("model-ap", on(MDEV, attributes(model="vfio-ap")), DEFINE, "VFIO AP device assignment is not supported"),
    row("model-ccw", on(SECOND_MDEV, attributes(model="vfio-ccw")), DEFINE, "VFIO CCW device assignment is not supp"),
    row("type-unknown", on(MDEV, attributes(type="vgpu")), DEFINE, "Rejected: "),
    row("attribute-unknown", on(MDEV, attributes(vgpu="yes")), READ_BACK, "dropped: host device 0: @vgpu='yes'"),
    row("child-unknown", on(MDEV, child("profile", name="x")), READ_BACK, "dropped: host device 0: profile"),
    row("driver-of-nvidia", on(PCI, child("driver", name="nvidia")), DEFINE, "Invalid value for attribute 'name'"),
    row("driver-on-mdev", on(MDEV, child("driver", name="vfio")), READ_BACK, "dropped: host device 0: driver@name='"),
    row("boot-order-twice", lambda root: (on(MDEV, child("boot", order="1"))(root),
        on(PCI, child("boot", order="1"))(root)), DEFINE, "boot order '1' used for more than one device"),
    row("outside-devices", moved_out, READ_BACK, "kept: there are 0 host devices 'ua-gpu-gpu0'"),
    row("device-missing", in_each("devices", lambda devices: devices.remove(devices.find("hostdev"))), READ_BACK,
        "written: there are 0 host devices 'ua-gpu-gpu0'"),
    row("one-more", copied(bus="0x19"), QEMU, "ua-other is attached as 0000:19:00.4"),
]  # fmt: skip
SOURCES = [
    row("same-uuid-twice", on(SECOND_MDEV, source(uuid=str(DEVICES[MDEV].identity))), DEFINE,
        "already exists in the domain configuration"),
    row("wrong-uuid", on(MDEV, source(uuid="b0a6f6ec-5f0f-4b8e-9c6e-0d3b6f0a7aff")), QEMU,
        "ua-gpu-gpu0 is attached as /sys/bus/mdev/devices/b0a6f6ec-5f0f-4b8e-9c6e-0d3b6f0a7aff"),
    row("nil-uuid", on(MDEV, source(uuid="00000000-0000-0000-0000-000000000000")), READ_BACK,
        "kept: 'ua-gpu-gpu0' has the source [{'uuid': '00000000-0000-0000-0000-000000000000'}]"),
    row("placeholder", on(MDEV, source(uuid="00000000-0000-4000-8000-000000000000")), QEMU, "there is a placeholder"),
    row("uuid-cut", on(MDEV, source(uuid="b0a6f6ec-5f0f-4b8e-9c6e")), DEFINE, "uuid"),
    row("uuid-missing", on(MDEV, source(uuid=None)), DEFINE, "Missing"),
    row("pci-address-in-mdev", on(MDEV, source(uuid=None, bus="0x18", slot="0x00", function="0x4")), DEFINE, "Missing"),
    row("uuid-in-pci", on(PCI, source(**ZERO, uuid=str(DEVICES[MDEV].identity))), READ_BACK,
        "kept: 'ua-gpu-gpu1' has the source [{'domain': '0x0000', 'bus': '0x00', 'slot': '0x00', 'function': '0x0'}]"),
    row("no-source-in-pci", on(PCI, without("source/address")), READ_BACK, "written: 'ua-gpu-gpu1' has the source []"),
    row("zeros-in-pci", on(PCI, source(domain="0x0000", bus="0x00", slot="0x00", function="0x0")), READ_BACK,
        "kept: 'ua-gpu-gpu1' has the source [{'domain': '0x0000', 'bus': '0x00'"),
    row("same-function-twice", copied(bus="0x18"), DEFINE, "already exists in the domain configuration"),
    row("physical-function", on(PCI, source(function="0x0")), QEMU, "ua-gpu-gpu1 is attached as 0000:18:00.0"),
    row("wrong-domain", on(PCI, source(domain="0x0001")), QEMU, "ua-gpu-gpu1 is attached as 0001:18:00.4"),
    row("bus-too-large", on(PCI, source(bus="0x165")), DEFINE, "Invalid PCI address bus='0x165', must be <= 0xFF"),
    row("slot-too-large", on(PCI, source(slot="0x20")), DEFINE, "Invalid PCI address slot='0x20', must be <= 0x1F"),
    row("function-too-large", on(PCI, source(function="0x9")), DEFINE, "Invalid PCI address function=0x9"),
]  # fmt: skip
GUEST_ADDRESSES = [
    row("guest-lost", on(MDEV, without("address")), SECOND_PASS, "is answered with None"),
    row("guest-another", on(PCI, guest(bus="0x1d")), SECOND_PASS, "'bus': '0x1d'"),
    row("guest-of-another", same_guest_address, SECOND_PASS, "Attempted double use of PCI Address"),
    row("guest-slot", on(MDEV, guest(slot="0x01")), SECOND_PASS, "slot must be <= 0"),
    row("guest-ccw", on(MDEV, child("address", type="ccw")), DEFINE, "Unsupported address type 'ccw'"),
]  # fmt: skip
OTHER_HOOKS = [
    row("arguments-lost", in_each("{*}commandline", without("{*}arg")), QEMU, "-fw_cfg is not passed on"),
    row("argument-without-value", in_each("{*}commandline/{*}arg", attributes(value=None)), DEFINE,
        "No qemu command-line argument specified"),
    row("disk-lost", in_each("devices", without(f"disk/alias[@name='{HOOK_DISK}']/..")), QEMU,
        f"{HOOK_DISK} is not passed on"),
]  # fmt: skip


def test_edit_without_mistake_passes(libvirt):
    verdict = judged(libvirt, no_mistake)
    assert verdict.faults == {}
    assert verdict.passed == list(Stage)
    assert verdict.drops == []


@pytest.mark.parametrize(
    ("mutate", "stage", "words"), ALIASES + DISPLAYS + ELEMENTS + SOURCES + GUEST_ADDRESSES + OTHER_HOOKS
)
def test_mistake_is_caught(libvirt, mutate, stage, words):
    verdict = judged(libvirt, mutate)
    assert words in "\n".join(verdict.faults.get(stage, [])), verdict.faults


NAMESPACE = f' xmlns:qemu="{QEMU_NAMESPACE}"'.encode()


def test_lost_namespace_is_caught(libvirt):
    verdict = judged(libvirt, no_mistake, in_text=lambda answer: answer.replace(NAMESPACE, b""))
    assert "prefix qemu" in str(verdict.faults[DEFINE])


def test_wrong_namespace_is_caught(libvirt):
    """libvirt takes it for something of others, and leaves the arguments out in silence."""
    verdict = judged(libvirt, no_mistake, in_text=lambda answer: answer.replace(b"qemu/1.0", b"qemu/1.1"))
    assert "dropped: QEMU argument '-fw_cfg'" in verdict.faults[READ_BACK]
    assert "-fw_cfg is not passed on" in verdict.faults[QEMU]
    assert verdict.drops


def test_another_prefix_of_the_namespace_is_no_mistake(libvirt):
    renamed_prefix = {b"xmlns:qemu": b"xmlns:q", b"<qemu:": b"<q:", b"</qemu:": b"</q:"}

    def rename(answer: bytes) -> bytes:
        for old, new in renamed_prefix.items():
            answer = answer.replace(old, new)
        return answer

    assert judged(libvirt, no_mistake, in_text=rename).faults == {}
