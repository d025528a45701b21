"""What people reported of hook sidecars, vGPUs and domain XML, each as a test with the id of its report."""

import re
from typing import Any

import pytest
from lxml import etree
from support import domains
from support.domains import (
    GRAPHICS,
    guest_address,
    host_devices,
    mdev,
    placeholder,
    shown,
    small_domain,
    source,
    vgpu_vf,
)

from dra.device import Device, Kind
from dra.errors import Refused
from dra.identity import MdevUUID, PciAddress
from dra.intent import Mode
from dra.reasons import Reason
from hooksidecar.domain import edit_domain

REPORTED = MdevUUID.parse("3f0e2a54-6c1d-4b7a-9f33-0c5d1e2b7a10")
OTHER = MdevUUID.parse("77b1c6de-0a4f-4f5c-8e0d-5b9a2c4d6e81")


def append(domain: bytes, *devices: Device) -> bytes:
    return edit_domain(domain, devices, mode=Mode.APPEND, vmi=None)


def replace(domain: bytes, *devices: Device) -> bytes:
    return edit_domain(domain, devices, mode=Mode.PLACEHOLDER, vmi=None)


def bare(identity: MdevUUID | PciAddress, name: str = "gpu", **facts: Any) -> Device:
    return Device(name, identity, **facts)


# Hook sidecars. https://github.com/kubevirt/kubevirt/issues/11276


@pytest.mark.corpus
def test_hs01_host_device_of_the_first_call_is_made_anew_once(bug_inputs):
    seen = (bug_inputs / "hs01-second-call.domain.xml").read_bytes()
    domain = seen.replace(b"ua-lab-claim-gpu", b"ua-dravirt-gpu")
    answer = append(domain, bare(REPORTED))
    (element,) = host_devices(answer).values()
    assert source(element) == {"uuid": str(REPORTED)}
    assert shown(element) == ("on", "on")
    assert domains.outside(answer, ["ua-dravirt-gpu"]) == domains.outside(domain, ["ua-dravirt-gpu"])
    with pytest.raises(Refused, match="'ua-lab-claim-gpu'"):  # the same device under an alias that is not ours
        append(seen, bare(REPORTED))


@pytest.mark.parametrize("dropped", ["mode", "type", "managed", "model", "display", "ramfb", "source", "address"])
def test_hs01_whatever_the_structs_drop_comes_back(dropped):
    first = append(small_domain(GRAPHICS), mdev("gpu"))
    tree = domains.parse(first)
    (element,) = tree.findall("devices/hostdev")
    if dropped == "source":
        element.remove(element.find("source"))
    elif dropped == "address":
        element.find("source").remove(element.find("source/address"))
    else:
        del element.attrib[dropped]
    assert append(etree.tostring(tree), mdev("gpu")) == first


# https://github.com/kubevirt/kubevirt/issues/11940

OTHER_HOOK = b'\n\t\t<disk type="block" device="lun"><source dev="/dev/sdx"/><target dev="sdx" bus="scsi"/></disk>\n\t'
OTHER_ARGUMENTS = b'<qemu:commandline>\n\t\t<qemu:arg value="-set"/>\n\t</qemu:commandline>\n'


def another_hook(domain: bytes) -> bytes:
    """Add a disk and QEMU arguments, as another sidecar would."""
    return domain.replace(b"</devices>", OTHER_HOOK + b"</devices>").replace(
        b"</domain>", OTHER_ARGUMENTS + b"</domain>"
    )


@pytest.mark.parametrize("mode", Mode)
def test_hs08_order_of_the_hooks_does_not_matter(mode):
    def ours(domain: bytes) -> bytes:
        return edit_domain(domain, [mdev("gpu0")], mode=mode, vmi=None)

    domain = small_domain(GRAPHICS, *([placeholder("gpu0")] if mode is Mode.PLACEHOLDER else []))
    before, after = another_hook(ours(domain)), ours(another_hook(domain))
    assert OTHER_HOOK in after
    assert OTHER_ARGUMENTS in after
    assert elements(before) == elements(after)


def elements(domain_xml: bytes) -> list[bytes]:
    """Return the elements of `<domain>` and of its `<devices>` as text, sorted."""
    root = domains.parse(domain_xml)
    devices = root.find("devices")
    return sorted(
        etree.tostring(element, method="c14n", with_tail=False) for element in (*devices, *root[:2], *root[3:])
    )


# https://github.com/kubevirt/kubevirt/pull/8355

CROWDED = (
    '<disk type="file"><source file="a"/><target dev="vda"/><alias name="ua-a"/></disk>',
    '<disk type="file"><source file="b"/><target dev="vdb"/><alias name="ua-b"/></disk>',
    '<disk type="file"><source file="c"/><target dev="vdc"/><alias name="ua-c"/></disk>',
    '<interface type="ethernet"><mac address="02:00:00:00:00:01"/><alias name="ua-n1"/></interface>',
    '<interface type="hostdev"><source><address bus="0x99"/></source><alias name="ua-sriov-n2"/></interface>',
    '<tpm model="tpm-crb"><backend type="emulator" version="2.0"/></tpm>',
    '<filesystem type="mount"><driver type="virtiofs"/><source socket="s"/><target dir="d"/></filesystem>',
    GRAPHICS,
)


@pytest.mark.parametrize("mode", Mode)
def test_hs23_only_our_host_devices_differ(mode):
    places = [placeholder("a", 0), placeholder("b", 1)] if mode is Mode.PLACEHOLDER else []
    domain = small_domain(*CROWDED, *places)
    answer = edit_domain(domain, [mdev("a", 1), vgpu_vf("b", 2)], mode=mode, vmi=None)
    ours = ["ua-gpu-a", "ua-gpu-b", "ua-dravirt-a", "ua-dravirt-b"]
    appended = mode is Mode.APPEND
    assert domains.outside(answer, ours, appended=appended) == domains.outside(domain, ours, appended=appended)
    assert len(host_devices(answer)) == 2


# vGPUs. https://github.com/kubevirt/kubevirt/pull/12053


def test_vg01_one_of_two_vgpus_has_ramfb():
    domain = small_domain(GRAPHICS, placeholder("left", 0), placeholder("right", 1))
    wished = [bare(REPORTED, "left", display=True), bare(OTHER, "right", display=True)]
    assert [shown(each) for each in host_devices(replace(domain, *wished)).values()] == [("on", "on"), ("on", None)]
    unsaid = [bare(REPORTED, "left"), bare(OTHER, "right")]
    assert [shown(each) for each in host_devices(replace(domain, *unsaid)).values()] == [("on", "on"), (None, None)]


# https://github.com/kubevirt/kubevirt/issues/8232


@pytest.mark.corpus
@pytest.mark.parametrize("wish", [None, True])
def test_vg03_no_display_without_graphics(bug_inputs, wish):
    answer = append((bug_inputs / "vg03-no-graphics.domain.xml").read_bytes(), bare(REPORTED, display=wish))
    (element,) = host_devices(answer).values()
    assert shown(element) == (None, None)


# https://github.com/kubevirt/kubevirt/issues/9593

VGA = '<video><model type="vga" heads="1" vram="16384" primary="yes"/></video>'


def test_vg05_video_stays_and_the_display_can_be_declined():
    domain = small_domain(GRAPHICS, VGA, placeholder("gpu0"))
    for wish, expected in ((None, ("on", "on")), (True, ("on", "on")), (False, (None, None))):
        answer = replace(domain, mdev("gpu0", display=wish))
        assert shown(host_devices(answer)["ua-gpu-gpu0"]) == expected
        assert domains.outside(answer, ["ua-gpu-gpu0"]) == domains.outside(domain, ["ua-gpu-gpu0"])


# https://github.com/kubevirt/kubevirt/issues/16043


@pytest.mark.parametrize("name", ["gpu-a", "gpu-0", "a", "0", "x" * 63])
@pytest.mark.parametrize("mode", Mode)
def test_vg06_alias_is_one_that_libvirt_keeps(name, mode):
    domain = small_domain(*([placeholder(name)] if mode is Mode.PLACEHOLDER else []))
    (alias,) = host_devices(edit_domain(domain, [mdev(name)], mode=mode, vmi=None))
    assert re.fullmatch(r"ua-[A-Za-z0-9_-]+", str(alias))


# https://github.com/virt-manager/virt-manager/pull/320


def test_vg08_same_uuid_in_two_cases_is_refused_with_both_requests():
    devices = [
        bare(REPORTED, "one", request="a"),
        bare(MdevUUID.parse("3F0E2A54-6C1D-4B7A-9F33-0C5D1E2B7A10"), "two", request="b"),
    ]
    with pytest.raises(Refused, match=rf"'one' \(request a\) and 'two' \(request b\).*{REPORTED}") as caught:
        append(small_domain(), *devices)
    assert caught.value.reason is Reason.DUPLICATE_DEVICE


# https://github.com/kubevirt/kubevirt/issues/8472


def test_vg14_memory_is_left_alone():
    memory = (
        '\n\t<maxMemory slots="0" unit="b">8589934592</maxMemory>\n\t<currentMemory unit="b">4294967296</currentMemory>'
    )
    domain = small_domain(placeholder("gpu0"), rest=memory)
    answer = replace(domain, mdev("gpu0"))
    assert domains.outside(answer, ["ua-gpu-gpu0"]) == domains.outside(domain, ["ua-gpu-gpu0"])
    assert b"memtune" not in answer


# https://github.com/kubevirt/kubevirt/issues/11981, https://github.com/UPC/ravada/issues/71

PORTS = [f'<controller type="pci" index="{i}" model="pcie-root-port"/>' for i in range(1, 9)]
USED = [f'<rng model="virtio"><address type="pci" bus="{bus:#04x}" slot="0x00"/></rng>' for bus in range(1, 9)]


@pytest.mark.parametrize("mode", Mode)
def test_vg17_xm07_no_guest_address_is_made_by_hand(mode):
    names = [f"gpu-{i}" for i in range(8)]
    places = [placeholder(name, i) for i, name in enumerate(names)] if mode is Mode.PLACEHOLDER else []
    devices = [mdev(name, i) for i, name in enumerate(names)]
    domain = small_domain(*PORTS, *USED, *places)
    answer = edit_domain(domain, devices, mode=mode, vmi=None)
    assert [guest_address(element) for element in host_devices(answer).values()] == [None] * 8
    assert answer.count(b"<controller ") == domain.count(b"<controller ")


# https://github.com/kubevirt/kubevirt/issues/9968, https://github.com/python/cpython/issues/113425


@pytest.mark.corpus
def test_vg19_qemu_arguments_keep_their_namespace(bug_inputs):
    answer = append((bug_inputs / "vg19-qemu-ns.domain.xml").read_bytes(), bare(REPORTED)).decode()
    assert 'xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0"' in answer.split(">")[0]
    values = re.findall(r'<qemu:arg value="([^"]*)"/>', answer)
    assert values == ["-fw_cfg", "name=opt/ovmf/X-PciMmio64Mb,string=131072"]


@pytest.mark.parametrize("prefix", ["qemu", "q"])
def test_xm05_prefixes_and_declarations_stay_even_unused(prefix):
    namespace = f'xmlns:{prefix}="http://libvirt.org/schemas/domain/qemu/1.0"'
    used = f"<{prefix}:commandline><{prefix}:arg value='x'/></{prefix}:commandline>"
    metadata = '<metadata><kubevirt xmlns="http://kubevirt.io"><uid/></kubevirt></metadata>'
    for rest in ("", used, used + metadata):
        domain = small_domain(placeholder("gpu0"), root=namespace, rest=rest)
        answer = replace(domain, mdev("gpu0"))
        assert namespace in answer.decode().split(">")[0]
        assert "ns0" not in answer.decode()
        assert domains.outside(answer, ["ua-gpu-gpu0"]) == domains.outside(domain, ["ua-gpu-gpu0"])


# https://github.com/kubevirt/kubevirt/issues/14024


def test_vg21_other_functions_of_the_slot_are_not_guessed():
    answer = append(small_domain(), bare(PciAddress.parse("0000:41:00.0"), kind=Kind.PASSTHROUGH))
    assert answer.count(b"<hostdev") == 1
    assert source(host_devices(answer)["ua-dravirt-gpu"])["function"] == "0x0"


# https://github.com/kubevirt/kubevirt/issues/4925


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        pytest.param(PciAddress.parse("0000:3b:00.4"), PciAddress.parse("0000:3B:00.4"), id="pci"),
        pytest.param(REPORTED, MdevUUID.parse(str(REPORTED).upper()), id="mdev"),
    ],
)
def test_vg23_case_does_not_matter(lower, upper):
    assert append(small_domain(), bare(lower)) == append(small_domain(), bare(upper))


# https://github.com/jaypipes/ghw/issues/372


@pytest.mark.parametrize(
    ("address", "domain"),
    [("10001:8a:00.0", "0x10001"), ("0008:8a:00.0", "0x0008"), ("00000000:8A:00.0", "0x0000"), ("8a:00.0", "0x0000")],
)
def test_vg25_domain_may_be_of_any_width(address, domain):
    answer = append(small_domain(), bare(PciAddress.parse(address)))
    assert source(host_devices(answer)["ua-dravirt-gpu"]) == {
        "type": "pci", "domain": domain, "bus": "0x8a", "slot": "0x00", "function": "0x0"
    }  # fmt: skip


# https://github.com/kubevirt/kubevirt/issues/17642


def test_vg28_virtual_function_is_plain_unmanaged_pci():
    (element,) = host_devices(replace(small_domain(GRAPHICS, placeholder("gpu0")), vgpu_vf("gpu0"))).values()
    assert dict(element.attrib) == {"mode": "subsystem", "type": "pci", "managed": "no"}
    assert [child.tag for child in element] == ["source", "alias"]


# Domain XML. https://github.com/ncclient/ncclient/pull/105


@pytest.mark.corpus
def test_xm01_line_break_before_the_declaration(bug_inputs):
    seen = (bug_inputs / "xm01-newline-declaration-cdata.domain.xml").read_bytes()
    answer = append(seen, bare(REPORTED))
    assert answer.startswith(b"<domain ")
    assert b"<description><![CDATA[lab <b> & more]]></description>" in answer
    assert b"<!-- keep me -->" in answer
    assert len(host_devices(answer)) == 1


# https://github.com/tefra/xsdata/issues/1212


@pytest.mark.corpus
def test_xm02_doctype_is_refused(bug_inputs):
    with pytest.raises(Refused) as caught:
        append((bug_inputs / "xm02-doctype.domain.xml").read_bytes(), bare(REPORTED))
    assert caught.value.reason is Reason.INVALID_DOMAIN
    assert "DOCTYPE" in str(caught.value)
    assert "who" not in str(caught.value)
    assert "hostname" not in str(caught.value)
