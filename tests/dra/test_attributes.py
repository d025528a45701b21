"""Which attribute of a device holds its identity."""

import pytest
from hypothesis import given
from support.dra_inputs import MAX_MESSAGE, bounded, json_values

from dra.allocation import AllocatedDevice
from dra.attributes import DEFAULT_NAMES, KNOWN_DRIVERS, AttributeNames, identity_of, names_for, profile_of
from dra.errors import Refused
from dra.identity import MdevUUID, PciAddress
from dra.reasons import Reason

DRIVER = "gpu.example.test"
UUID = "b0a6f6ec-5f0f-4b8e-9c6e-0d3b6f0a7a11"
OTHER_UUID = "77b1c6de-0a4f-4f5c-8e0d-5b9a2c4d6e81"
STANDARD = "resource.kubernetes.io/pciBusID"
PF, VF = "0000:41:00.0", "0000:41:00.4"


def allocated(driver=DRIVER, **attributes):
    """Return a device with text attributes, given as `name="value"` or as `**{"domain/name": "value"}`."""
    return AllocatedDevice(
        "gpu", driver, "node-7", "v0", attributes={name: {"string": text} for name, text in attributes.items()}
    )


def raw(**attributes):
    return AllocatedDevice("gpu", DRIVER, "node-7", "v0", attributes=attributes)


def identity(device, table=None):
    found = identity_of(device, table or {})
    return None if found is None else str(found)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"mdevUUID": UUID}, UUID),
        ({f"{DRIVER}/mdevUUID": UUID}, UUID),
        ({"mdevUUID": UUID.upper()}, UUID),
        ({"pciBusID": VF}, VF),
        ({f"{DRIVER}/pciBusID": VF}, VF),
        ({STANDARD: PF}, PF),
        ({STANDARD: "10001:8A:00.0"}, "10001:8a:00.0"),
        ({STANDARD: "0008:01:00.0"}, "0008:01:00.0"),
        ({"pciBusID": "00000000:3B:00.4"}, "0000:3b:00.4"),
        ({}, None),
        ({"uuid": UUID}, None),
        ({"other.example.test/mdevUUID": UUID}, None),
        ({"resource.kubernetes.io/pcieRoot": "pci0000:41"}, None),
        ({"mdevuuid": UUID}, None),
    ],
    ids=[
        "dr18-bare-uuid",
        "dr18-uuid-of-the-driver",
        "vg23-uuid-in-capitals",
        "bare-address",
        "address-of-the-driver",
        "standard-address",
        "vg25-five-digits",
        "dr20-grace",
        "nvml-form",
        "none",
        "dr18-plain-uuid-is-a-gpu-id",
        "uuid-of-another-driver",
        "root-complex-is-no-address",
        "names-have-one-case",
    ],
)
def test_default_attributes_hold_the_identity(attributes, expected):
    assert identity(allocated(**attributes)) == expected


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        # NVIDIA vGPU drafts publish the parent's address as the standard attribute and the function's as the bare one.
        ({"mdevUUID": UUID, "pciBusID": VF, STANDARD: PF}, UUID),
        ({"pciBusID": VF, STANDARD: PF}, VF),
        ({f"{DRIVER}/pciBusID": VF, STANDARD: PF}, VF),
        ({"mdevUUID": UUID, STANDARD: PF}, UUID),
        ({f"{DRIVER}/mdevUUID": UUID, "pciBusID": VF}, UUID),
    ],
    ids=["mdev-on-vf", "vendor-vfio-vf", "qualified-vf", "mdev-on-pf", "qualified-mdev-on-vf"],
)
def test_the_physical_function_is_never_taken_for_the_virtual_one(attributes, expected):
    assert identity(allocated(**attributes)) == expected
    assert identity(allocated(**dict(reversed(attributes.items())))) == expected


@pytest.mark.parametrize(
    ("driver", "attributes", "expected"),
    [
        ("gpu.amd.com", {"pciAddr": VF, STANDARD: VF}, VF),
        ("gpu.amd.com", {"pciAddr": VF}, VF),
        ("gpu.intel.com", {"pciAddress": VF, STANDARD: VF}, VF),
        ("gpu.intel.com", {STANDARD: VF}, VF),
        ("sriovnetwork.k8snetworkplumbingwg.io", {"sriovnetwork.k8snetworkplumbingwg.io/pciAddress": VF}, VF),
        ("gpu.nvidia.com", {"uuid": UUID, "type": "vfio", STANDARD: "0000:65:00.0"}, "0000:65:00.0"),
        (DRIVER, {"pciAddr": VF, "pciAddress": VF}, None),
    ],
    ids=["amd", "amd-own", "intel", "intel-metadata", "sriov", "nvidia-passthrough", "other-drivers-do-not-mean-it"],
)
def test_known_drivers_name_their_own_attributes(driver, attributes, expected):
    assert identity(allocated(driver, **attributes)) == expected


@pytest.mark.parametrize(
    "attribute",
    [
        {"int": 1},
        {"bool": True},
        {"version": "1.0.0"},
        {"strings": [UUID]},
        {"later": UUID},
        {"string": 1},
        {"string": None},
        {"string": [UUID]},
        {"string": ""},
        {},
        UUID,
        None,
        [UUID],
    ],
    ids=repr,
)
def test_values_of_other_types_are_unusable(attribute):
    assert identity_of(raw(mdevUUID=attribute), {}) is None
    assert profile_of(raw(profile=attribute), {}) is None
    assert str(identity_of(raw(mdevUUID=attribute, pciBusID={"string": VF}), {})) == VF


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"mdevUUID": UUID, f"{DRIVER}/mdevUUID": UUID.upper()}, UUID),
        ({"pciBusID": "41:00.4", f"{DRIVER}/pciBusID": "00000000:41:00.4"}, VF),
    ],
    ids=["uuid", "address"],
)
def test_two_spellings_of_one_identity_are_one(attributes, expected):
    assert identity(allocated(**attributes)) == expected


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        (
            {"mdevUUID": UUID, f"{DRIVER}/mdevUUID": OTHER_UUID},
            f"mdevUUID={UUID} and {DRIVER}/mdevUUID={OTHER_UUID} contradict each other",
        ),
        (
            {"pciBusID": VF, f"{DRIVER}/pciBusID": PF},
            f"pciBusID={VF} and {DRIVER}/pciBusID={PF} contradict each other",
        ),
    ],
    ids=["uuid", "address"],
)
def test_two_spellings_that_contradict_each_other_are_refused(attributes, says):
    with pytest.raises(Refused) as refused:
        identity(allocated(**attributes))
    assert refused.value.reason is Reason.AMBIGUOUS_IDENTITY
    assert refused.value.message == f"device {DRIVER}/node-7/v0: {says}"


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({"mdevUUID": "GPU-0"}, "attribute mdevUUID: not a UUID (8-4-4-4-12 hexadecimal digits): 'GPU-0'"),
        ({f"{DRIVER}/mdevUUID": VF}, f"attribute {DRIVER}/mdevUUID: not a UUID"),
        ({"mdevUUID": UUID, f"{DRIVER}/mdevUUID": "x"}, f"attribute {DRIVER}/mdevUUID: not a UUID"),
        ({"mdevUUID": "x", "pciBusID": VF}, "attribute mdevUUID: not a UUID"),
        ({"pciBusID": UUID, STANDARD: VF}, "attribute pciBusID: not a PCI address"),
        ({STANDARD: "pci0000:41"}, f"attribute {STANDARD}: not a PCI address"),
        ({STANDARD: "../../0000:41:00.0"}, f"attribute {STANDARD}: not a PCI address"),
        ({STANDARD: "ffffffff:00:00.0"}, f"attribute {STANDARD}: PCI domain above 0x7fffffff"),
        ({STANDARD: "x" * 1_000_000}, f"attribute {STANDARD}: not a PCI address"),
        ({STANDARD: "\n\x1b\u0430"}, f"attribute {STANDARD}: not a PCI address"),
    ],
)
def test_malformed_attribute_is_refused_and_no_other_is_tried(attributes, says):
    with pytest.raises(Refused) as refused:
        identity(allocated(**attributes))
    assert refused.value.reason is Reason.INVALID_ATTRIBUTE
    assert refused.value.message.startswith(f"device {DRIVER}/node-7/v0: {says}")
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < MAX_MESSAGE


def test_dr18_configured_names_take_the_place_of_the_known_ones_in_their_order():
    table = {DRIVER: AttributeNames(mdev_uuid=("vgpuUUID", "a.b/uuid"), pci_address=("bdf",))}
    assert identity(allocated(**{"a.b/uuid": UUID, "vgpuUUID": OTHER_UUID}), table) == OTHER_UUID
    assert identity(allocated(**{"a.b/uuid": UUID, "bdf": VF}), table) == UUID
    assert identity(allocated(bdf=VF, **{STANDARD: PF}), table) == VF
    assert identity(allocated(mdevUUID=UUID, **{STANDARD: PF}), table) is None
    assert identity(allocated("other.example.test", mdevUUID=UUID), table) == UUID


def test_a_name_configured_with_the_domain_of_the_driver_is_the_bare_name():
    table = {DRIVER: AttributeNames(mdev_uuid=(f"{DRIVER}/vgpuUUID",))}
    assert identity(allocated(vgpuUUID=UUID), table) == UUID
    assert identity(allocated(**{f"{DRIVER}/vgpuUUID": UUID}), table) == UUID


def test_names_are_those_configured_else_known_else_default():
    table = {"gpu.amd.com": AttributeNames(mdev_uuid=("x",))}
    assert names_for("gpu.amd.com", table) == AttributeNames(mdev_uuid=("x",))
    assert names_for("gpu.intel.com", table) == KNOWN_DRIVERS["gpu.intel.com"]
    assert names_for(DRIVER, table) == DEFAULT_NAMES


@pytest.mark.parametrize(
    ("attributes", "profile"),
    [
        ({"profile": "NVIDIA A100-1-5C"}, "NVIDIA A100-1-5C"),
        ({f"{DRIVER}/profile": "NVIDIA L40S-24Q"}, "NVIDIA L40S-24Q"),
        ({"profile": "A", f"{DRIVER}/profile": "B"}, "A"),
        ({"productName": "A100"}, None),
    ],
    ids=["bare", "qualified", "bare-first", "none"],
)
def test_profile_is_what_the_device_says(attributes, profile):
    assert profile_of(allocated(**attributes), {}) == profile


def test_profile_is_read_from_the_configured_attributes_in_their_order():
    table = {DRIVER: AttributeNames(profile=("vgpuType", "model"))}
    assert profile_of(allocated(model="M", vgpuType="T", profile="P"), table) == "T"
    assert profile_of(allocated(model="M", profile="P"), table) == "M"


@bounded
@given(json_values, json_values)
def test_any_attribute_is_an_identity_none_or_refused(one, two):
    device = raw(**{"mdevUUID": one, "pciBusID": {"string": two}, f"{DRIVER}/pciBusID": two, STANDARD: {"string": one}})
    try:
        found = identity_of(device, {})
    except Refused as refused:
        assert refused.reason in (Reason.INVALID_ATTRIBUTE, Reason.AMBIGUOUS_IDENTITY)  # noqa: PT017 (both are right)
    else:
        assert found is None or isinstance(found, MdevUUID | PciAddress)
