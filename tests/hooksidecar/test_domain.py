"""The edit of the domain, rule by rule, on small domains."""

import itertools

import pytest
from support import domains
from support.domains import GRAPHICS, guest_address, host_devices, mdev, passthrough, placeholder, small_domain, vgpu_vf

from dra.device import Device
from dra.errors import Refused
from dra.identity import MdevUUID, PciAddress
from dra.intent import Mode
from dra.reasons import Reason
from hooksidecar.domain import edit_domain


def edit(domain: bytes, *devices: Device, mode: Mode = Mode.PLACEHOLDER) -> bytes:
    return edit_domain(domain, devices, mode=mode, vmi=None)


def refused(domain: bytes, *devices: Device, mode: Mode = Mode.PLACEHOLDER) -> Refused:
    with pytest.raises(Refused) as caught:
        edit(domain, *devices, mode=mode)
    return caught.value


def hostdev(source: str, *, kind: str = "mdev", alias: str = "ua-other", attributes: str = "", rest: str = "") -> str:
    source = f"<source><address {source}/></source>"
    return f'<hostdev type="{kind}" {attributes}>{source}<alias name="{alias}"/>{rest}</hostdev>'


MDEV = """<hostdev mode="subsystem" type="mdev" managed="no" model="vfio-pci" display="on" ramfb="on">
			<source>
				<address uuid="b0a6f6ec-5f0f-4b8e-9c6e-0d3b6f0a7a00"/>
			</source>
			<alias name="ua-{alias}-gpu0"/>
		</hostdev>"""
PCI = """<hostdev mode="subsystem" type="pci" managed="no">
			<source>
				<address type="pci" domain="0x0000" bus="0x18" slot="0x00" function="0x4"/>
			</source>
			<alias name="ua-{alias}-gpu0"/>
		</hostdev>"""
BOTH = pytest.mark.parametrize(
    ("device", "expected"),
    [pytest.param(mdev("gpu0"), MDEV, id="mdev"), pytest.param(vgpu_vf("gpu0", 4), PCI, id="pci")],
)


@BOTH
def test_placeholder_becomes_the_device(device, expected):
    answer = edit(small_domain(GRAPHICS, placeholder("gpu0")), device)
    assert expected.format(alias="gpu") in answer.decode()
    assert len(host_devices(answer)) == 1


@BOTH
def test_device_is_appended_where_there_is_no_host_device(device, expected):
    answer = edit(small_domain(GRAPHICS), device, mode=Mode.APPEND)
    assert expected.format(alias="dravirt") in answer.decode()
    assert domains.parse(answer).find("devices")[-1].tag == "hostdev"


def test_device_is_appended_after_the_last_host_device():
    other = hostdev('uuid="aa618089-8b16-4d01-a136-25a0f3c73123"', attributes='model="vfio-pci"')
    answer = edit(small_domain(other, GRAPHICS), mdev("a", 1), mdev("b", 2), mode=Mode.APPEND)
    assert [element.tag for element in domains.parse(answer).find("devices")] == [
        "hostdev", "hostdev", "hostdev", "graphics", "disk"
    ]  # fmt: skip
    assert list(host_devices(answer)) == ["ua-other", "ua-dravirt-a", "ua-dravirt-b"]
    assert answer.count(b"</hostdev>\n\t\t<") == 3  # each on a line of its own


@pytest.mark.parametrize("mode", Mode)
def test_devices_container_may_be_empty(mode):
    empty = b"<domain><devices/></domain>"
    assert edit(empty, mode=mode) == empty
    if mode is Mode.APPEND:
        assert list(host_devices(edit(empty, mdev("gpu0"), mode=mode))) == ["ua-dravirt-gpu0"]


@pytest.mark.parametrize("make", [mdev, vgpu_vf, passthrough])
def test_many_devices_go_where_their_names_are(make):
    names = [f"gpu-{number}" for number in range(32)]
    devices = [make(name, number) for number, name in enumerate(names)]
    domain = small_domain(GRAPHICS, *(placeholder(name, number) for number, name in enumerate(reversed(names))))
    answer = edit(domain, *devices)
    assert list(host_devices(answer)) == [f"ua-gpu-{name}" for name in reversed(names)]
    sources = {alias: domains.source(element) for alias, element in host_devices(answer).items()}
    assert sources["ua-gpu-gpu-7"] == domains.source(
        host_devices(edit(small_domain(), make("x", 7), mode=Mode.APPEND))["ua-dravirt-x"]
    )


@pytest.mark.parametrize("mode", Mode)
def test_order_of_the_devices_given_does_not_matter_once_they_stand_in_the_domain(mode):
    devices = [mdev("a", 1), vgpu_vf("b", 2), passthrough("c", 3), mdev("d", 4)]
    prefix = "ua-gpu-" if mode is Mode.PLACEHOLDER else "ua-dravirt-"
    elements = [placeholder(device.name, i).replace("ua-gpu-", prefix) for i, device in enumerate(devices)]
    domain = small_domain(GRAPHICS, *elements)
    assert len({edit(domain, *order, mode=mode) for order in itertools.permutations(devices)}) == 1


def test_appended_devices_keep_the_order_of_their_list():
    answer = edit(small_domain(GRAPHICS), mdev("second", 1), mdev("first", 2), mode=Mode.APPEND)
    assert list(host_devices(answer)) == ["ua-dravirt-second", "ua-dravirt-first"]


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("make", [mdev, vgpu_vf, passthrough])
def test_second_edit_changes_nothing(make, mode):
    domain = small_domain(GRAPHICS, *([placeholder("gpu0")] if mode is Mode.PLACEHOLDER else []))
    once = edit(domain, make("gpu0"), mode=mode)
    assert edit(once, make("gpu0"), mode=mode) == once


@pytest.mark.parametrize("empty_type", [True, False], ids=["up-to-1.6", "from-1.8"])
@pytest.mark.parametrize("make", [mdev, vgpu_vf, passthrough])
@pytest.mark.parametrize("mode", Mode)
def test_second_pass_keeps_the_guest_address(make, mode, empty_type):
    domain = small_domain(GRAPHICS, *([placeholder("gpu0")] if mode is Mode.PLACEHOLDER else []))
    first = edit(domain, make("gpu0"), mode=mode)
    second = edit(domains.next_pass(first, empty_type=empty_type), make("gpu0"), mode=mode)
    (before,), (after,) = host_devices(first).values(), host_devices(second).values()
    assert guest_address(before) is None
    assert guest_address(after) == {
        "type": "pci", "domain": "0x0000", "bus": "0x09", "slot": "0x00", "function": "0x0"
    }  # fmt: skip
    assert dict(after.attrib) == dict(before.attrib)
    assert domains.source(after) == domains.source(before)
    assert [child.tag for child in after] == ["source", "address", "alias"]
    assert edit(domains.next_pass(second, empty_type=empty_type), make("gpu0"), mode=mode) == second


def test_device_that_is_another_one_in_the_next_call_replaces_the_first():
    first = edit(small_domain(GRAPHICS, placeholder("gpu0")), mdev("gpu0"))
    second = edit(domains.next_pass(first), vgpu_vf("gpu0", 1))
    (element,) = host_devices(second).values()
    assert dict(element.attrib) == {"mode": "subsystem", "type": "pci", "managed": "no"}
    assert domains.source(element) == {
        "type": "pci", "domain": "0x0000", "bus": "0x18", "slot": "0x00", "function": "0x1"
    }  # fmt: skip


CHILDREN = (
    '<boot order="2"/><driver name="vfio"/><!-- kept --><rom bar="off"/><teaming type="transient"/><acpi nodeset="1"/>'
)


@pytest.mark.parametrize(
    ("device", "kept"),
    [
        pytest.param(mdev("gpu0"), ["source", "boot", "comment", "rom", "acpi", "alias"], id="mdev"),
        pytest.param(
            passthrough("gpu0"), ["source", "boot", "driver", "comment", "rom", "teaming", "acpi", "alias"], id="pci"
        ),
    ],
)
def test_children_of_others_stay_unless_the_type_cannot_have_them(device, kept):
    domain = small_domain(hostdev('uuid="00000000-0000-4000-8000-000000000000"', alias="ua-gpu-gpu0", rest=CHILDREN))
    (element,) = host_devices(edit(domain, device)).values()
    assert [child.tag if isinstance(child.tag, str) else "comment" for child in element] == kept


def test_attributes_and_sources_of_the_placeholder_are_left_behind():
    odd = hostdev(
        'type="" bus="" uuid="00000000-0000-4000-8000-000000000000"',
        alias="ua-gpu-gpu0",
        attributes='managed="yes" mode="capabilities" model="vfio-ap" display="off" rawio="yes"',
        rest='<source writeFiltering="no"><address uuid="00000000-0000-4000-8000-1"/></source><alias name="x"/>',
    )
    (element,) = host_devices(edit(small_domain(odd), mdev("gpu0"))).values()
    assert dict(element.attrib) == {"mode": "subsystem", "type": "mdev", "managed": "no", "model": "vfio-pci"}
    assert domains.source(element) == {"uuid": "b0a6f6ec-5f0f-4b8e-9c6e-0d3b6f0a7a00"}
    assert [child.tag for child in element] == ["source", "alias"]


# What is refused.


def test_missing_placeholder_is_refused():
    error = refused(small_domain(placeholder("gpu0")), mdev("gpu0", 0), mdev("gpu1", 1))
    assert error.reason is Reason.NO_PLACEHOLDER
    assert str(error) == (
        "device 'gpu1': the domain has no host device 'ua-gpu-gpu1' to put it in: restart the VM, so that dravirt adds "
        "the placeholder"
    )


@pytest.mark.parametrize(
    "uuid",
    [
        "00000000-0000-4000-8000-000000000007",
        "00000000-0000-4000-8000-00000000ABCD",
        "00000000000040008000000000000007",
        " 0000 0000-00004000-8000-000000000007 ",
    ],
)
@pytest.mark.parametrize("kind", ["mdev", "pci", "nonsense"])
def test_placeholder_that_would_reach_libvirt_is_refused(uuid, kind):
    left = hostdev(f'uuid="{uuid}"', kind=kind, alias="ua-gpu-left")
    error = refused(small_domain(placeholder("gpu0"), left), mdev("gpu0"))
    assert error.reason is Reason.PLACEHOLDER_LEFT
    assert "hostdev 'ua-gpu-left' is a placeholder that no device was allocated for" in str(error)
    assert refused(small_domain(left), mode=Mode.APPEND).reason is Reason.PLACEHOLDER_LEFT


def test_placeholder_without_alias_is_refused_too():
    left = placeholder("x").replace('<alias name="ua-gpu-x"></alias>', "")
    assert "a hostdev without alias is a placeholder" in str(refused(small_domain(left)))


def test_device_with_the_uuid_of_a_placeholder_is_refused():
    device = Device("gpu0", MdevUUID.parse("00000000-0000-4000-8000-000000000000"))
    assert refused(small_domain(placeholder("gpu0")), device).reason is Reason.PLACEHOLDER_LEFT


@pytest.mark.parametrize(
    ("other", "name"),
    [
        pytest.param(
            hostdev('uuid="B0A6F6EC-5F0F-4B8E-9C6E-0D3B6F0A7A00"'), "hostdev 'ua-other'", id="mdev-upper-case"
        ),
        pytest.param(hostdev('uuid="b0a6f6ec5f0f4b8e9c6e0d3b6f0a7a00"'), "hostdev 'ua-other'", id="mdev-no-dashes"),
        pytest.param(
            hostdev('bus="0x18" slot="0" function="0x4"', kind="pci"), "hostdev 'ua-other'", id="pci-no-domain"
        ),
        pytest.param(
            hostdev('domain="0" bus="24" slot="00" function="04"', kind="pci"), "hostdev 'ua-other'", id="pci-decimal"
        ),
        pytest.param(hostdev('bus=" 0X18" function="4"', kind="pci"), "hostdev 'ua-other'", id="pci-blank-upper-case"),
        pytest.param(
            hostdev('bus="030" function="4"', kind="pci").replace('<alias name="ua-other"/>', ""),
            "a hostdev without alias",
            id="pci-octal-no-alias",
        ),
        pytest.param(
            '<interface type="hostdev"><source><address type="pci" domain="0x0000" bus="0x18" slot="0x00" '
            'function="0x4"/></source><alias name="ua-sriov-net1"/></interface>',
            "interface 'ua-sriov-net1'",
            id="interface",
        ),
    ],
)
def test_device_that_another_one_attaches_is_refused(other, name):
    domain = small_domain(other, placeholder("a", 0), placeholder("b", 1))
    error = refused(domain, mdev("a", 0), vgpu_vf("b", 4))
    assert error.reason is Reason.DEVICE_TAKEN
    assert f"is also that of {name}: remove that from the VM" in str(error)
    assert str(error).startswith(("device 'a': b0a6f6ec-", "device 'b': 0000:18:00.4 "))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(hostdev('bus="1" device="2"', kind="usb"), id="usb"),
        pytest.param(hostdev('bus="1" target="0" unit="0"', kind="scsi"), id="scsi"),
        pytest.param(hostdev('bus="1" slot="junk"', kind="pci"), id="pci-junk"),
        pytest.param(hostdev('bus="1" function="1"', kind="pci"), id="pci-other-function"),
        pytest.param(hostdev('uuid="junk"'), id="mdev-junk"),
        pytest.param('<interface type="ethernet"><source><address bus="1"/></source></interface>', id="interface"),
        pytest.param('<controller type="pci"><address type="pci" bus="0x01"/></controller>', id="guest-address"),
    ],
)
def test_other_devices_that_only_look_alike_are_no_obstacle(other):
    device = Device("gpu0", PciAddress(0, 1, 0, 0))
    answer = edit(small_domain(other, placeholder("gpu0")), device)
    assert domains.source(host_devices(answer)["ua-gpu-gpu0"])["bus"] == "0x01"


@pytest.mark.parametrize("mode", Mode)
def test_alias_that_is_there_twice_is_refused(mode):
    prefix = "ua-gpu-" if mode is Mode.PLACEHOLDER else "ua-dravirt-"
    twice = [placeholder("gpu0", number).replace("ua-gpu-", prefix) for number in (0, 1)]
    error = refused(small_domain(*twice), mdev("gpu0"), mode=mode)
    assert error.reason is Reason.INVALID_DOMAIN
    assert f"device 'gpu0': the alias '{prefix}gpu0' must belong to one host device alone" in str(error)


@pytest.mark.parametrize("mode", Mode)
def test_alias_of_another_kind_of_device_is_refused(mode):
    disk = (
        '<disk type="file"><alias name="ua-gpu-gpu0"/></disk><disk type="file"><alias name="ua-dravirt-gpu0"/></disk>'
    )
    assert refused(small_domain(disk), mdev("gpu0"), mode=mode).reason is Reason.INVALID_DOMAIN


def test_mediated_device_that_is_no_gpu_is_refused():
    error = refused(small_domain(placeholder("gpu0")), mdev("gpu0", model="vfio-ap"))
    assert error.reason is Reason.UNSUPPORTED_MODEL
    assert "device 'gpu0'" in str(error)


@pytest.mark.parametrize(
    "devices",
    [
        pytest.param([mdev("gpu0", 1), mdev("gpu0", 2)], id="name"),
        pytest.param([mdev("a", 1), mdev("b", 1)], id="uuid"),
        pytest.param([vgpu_vf("a", 1), vgpu_vf("b", 1)], id="address"),
    ],
)
def test_same_device_twice_is_refused(devices):
    assert refused(small_domain(), *devices, mode=Mode.APPEND).reason is Reason.DUPLICATE_DEVICE
