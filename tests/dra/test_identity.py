"""The identities of devices: UUIDs of mediated devices and addresses of PCI functions."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.dra_inputs import UNSAFE_NAMES, bounded

from dra.contract import placeholder_uuid
from dra.identity import MdevUUID, PciAddress

UUID = "b0a6f6ec-5f0f-4b8e-9c6e-0d3b6f0a7a11"
addresses = st.builds(
    PciAddress, st.integers(0, 0x7FFFFFFF), st.integers(0, 0xFF), st.integers(0, 0x1F), st.integers(0, 7)
)


@bounded
@given(st.uuids())
def test_uuid_in_any_case_is_one_uuid(value: uuid.UUID):
    text = str(value)
    assert MdevUUID.parse(text) == MdevUUID.parse(text.upper())
    assert str(MdevUUID.parse(text.upper())) == text


@bounded
@given(addresses)
def test_address_is_read_back_as_it_is_spelt(address: PciAddress):
    text = str(address)
    assert PciAddress.parse(text) == address
    assert PciAddress.parse(text.upper()) == address


@bounded
@given(addresses)
def test_nvml_form_is_the_same_address(address: PciAddress):
    nvml = f"{address.domain:08X}:{address.bus:02X}:{address.slot:02X}.{address.function}"
    assert PciAddress.parse(nvml) == address


@bounded
@given(addresses)
def test_short_form_is_in_domain_0(address: PciAddress):
    short = f"{address.bus:02x}:{address.slot:02x}.{address.function}"
    assert PciAddress.parse(short) == PciAddress(0, address.bus, address.slot, address.function)


@pytest.mark.parametrize(
    ("text", "spelt"),
    [
        ("0000:3b:00.4", "0000:3b:00.4"),
        ("0000:3B:00.4", "0000:3b:00.4"),
        ("3b:00.0", "0000:3b:00.0"),
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0008:01:00.0", "0008:01:00.0"),
        ("10001:8A:00.0", "10001:8a:00.0"),
        ("7fffffff:ff:1f.7", "7fffffff:ff:1f.7"),
        ("0010001:80:05.0", "10001:80:05.0"),
    ],
    ids=["sysfs", "vg23-capitals", "short", "nvml", "dr20-grace", "vg25-vmd", "largest", "leading-zeros"],
)
def test_addresses_are_spelt_as_sysfs_does(text, spelt):
    assert str(PciAddress.parse(text)) == spelt


@pytest.mark.parametrize(
    "text",
    [
        "80000000:00:00.0",  # above what libvirt takes
        "ffffffff:00:00.0",
        "000000000:00:00.0",
        "000:3b:00.0",
        "0000:3b:00",
        "0000:3b:00.8",
        "0000:3b:20.0",
        "0000:3b:000.0",
        "0000:3b00.0",
        "0000:3b:00:0",
        "0000-3b-00.0",
        "0x0000:3b:00.0",
        "0000:3g:00.0",
        " 0000:3b:00.0",
        "0000:3b:00.0\n",
        "0000:\uff13b:00.0",
        "0000:3b:00.0/../0000:3b:00.1",
        "pci0000:3b",
        UUID,
        *UNSAFE_NAMES.values(),
    ],
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ValueError, match=r"not a PCI address|PCI domain above") as refused:
        PciAddress.parse(text)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    "text",
    [
        UUID.replace("-", ""),
        f"{{{UUID}}}",
        f"urn:uuid:{UUID}",
        UUID + "\n",
        " " + UUID,
        UUID[:-1],
        UUID + "0",
        UUID.replace("a", "g"),
        UUID.replace("-", "\u2010"),
        UUID.replace("0", "\uff10"),
        f"GPU-{UUID}",
        f"../{UUID}",
        "0000:3b:00.0",
        *UNSAFE_NAMES.values(),
    ],
)
def test_what_is_no_uuid_is_refused(text):
    with pytest.raises(ValueError, match="not a UUID") as refused:
        MdevUUID.parse(text)
    assert str(refused.value).isprintable()


@bounded
@given(st.text() | st.from_regex(r"[0-9a-f:.]{0,20}") | st.from_regex(r"[0-9a-f-]{30,40}"))
def test_any_text_is_an_identity_or_a_value_error(text):
    for kind in (MdevUUID, PciAddress):
        try:
            value = kind.parse(text)
        except ValueError:
            continue
        assert kind.parse(str(value)) == value


@pytest.mark.parametrize("kind", [MdevUUID, PciAddress])
def test_a_huge_text_is_refused_in_few_words(kind):
    with pytest.raises(ValueError, match="not a") as refused:
        kind.parse("a" * 1_000_000)
    assert len(str(refused.value)) < 200


def test_addresses_have_the_order_of_the_bus():
    ordered = ["0000:3a:1f.7", "0000:3b:00.1", "0000:3b:00.4", "0001:00:00.0", "10001:00:00.0"]
    assert [str(address) for address in sorted(map(PciAddress.parse, reversed(ordered)))] == ordered


@pytest.mark.parametrize("index", [0, 1, 31])
def test_placeholder_uuids_are_uuids_and_known_as_placeholders(index):
    assert MdevUUID.parse(placeholder_uuid(index)).is_placeholder


def test_a_real_uuid_is_no_placeholder():
    assert not MdevUUID.parse(UUID).is_placeholder
