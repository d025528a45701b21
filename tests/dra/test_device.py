"""The list of devices that one command prints and another reads."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.dra_inputs import MAX_MESSAGE, UNSAFE_NAMES, bounded, json_values, labels, request_names, subdomains

from dra.attributes import identity_of
from dra.device import Device, Kind, Source, check_unique, read_devices
from dra.errors import Refused
from dra.identity import MdevUUID, PciAddress
from dra.metadata import decode_metadata
from dra.reasons import Reason

UUID = "b0a6f6ec-5f0f-4b8e-9c6e-0d3b6f0a7a11"
ADDRESS = "0000:3b:00.4"


def device(**fields):
    """Return the least device, with `fields` put in, or taken out where they are given as ...."""
    whole = {"name": "gpu0", "mdevUUID": UUID} | fields
    return {key: value for key, value in whole.items() if value is not ...}


def read(*devices):
    return read_devices(list(devices), path="devices")


def refusal(value, reason=Reason.INVALID_DEVICES):
    with pytest.raises(Refused) as refused:
        read_devices(value, path="devices")
    assert refused.value.reason is reason
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < MAX_MESSAGE
    return refused.value


def test_the_least_device_is_a_name_and_an_identity():
    assert read(device(), device(name="gpu1", mdevUUID=..., pciAddress="3B:00.4")) == (
        Device("gpu0", MdevUUID(UUID)),
        Device("gpu1", PciAddress(0, 0x3B, 0, 4)),
    )


def test_as_many_devices_as_a_claim_can_yield_are_read():
    assert (
        len(read(*(device(name=f"g{slot}", mdevUUID=..., pciAddress=f"3b:{slot:02x}.0") for slot in range(32)))) == 32
    )


def test_device_is_written_as_the_contract_shows_it():
    written = Device(
        name="gpu0",
        identity=PciAddress.parse(ADDRESS),
        display=True,
        ramfb=False,
        kind=Kind.VGPU_VF,
        profile="NVIDIA L40S-24Q",
        mig_backed=False,
        iommu_group="120",
        driver="gpu.example.test",
        pool="node-7",
        device="v0",
        request="main/sub",
        source=Source.METADATA,
    )
    assert json.loads(json.dumps(written.to_json())) == {
        "name": "gpu0",
        "pciAddress": ADDRESS,
        "model": "vfio-pci",
        "display": True,
        "ramfb": False,
        "kind": "vgpu-vf",
        "profile": "NVIDIA L40S-24Q",
        "migBacked": False,
        "iommuGroup": "120",
        "driver": "gpu.example.test",
        "pool": "node-7",
        "device": "v0",
        "request": "main/sub",
        "source": "metadata",
    }


texts = st.none() | st.text(min_size=1, max_size=20)
booleans = st.sampled_from([None, True, False])
devices = st.builds(
    Device,
    name=labels,
    identity=st.uuids().map(lambda value: MdevUUID(str(value)))
    | st.builds(PciAddress, st.integers(0, 0x7FFFFFFF), st.integers(0, 255), st.integers(0, 31), st.integers(0, 7)),
    model=st.sampled_from(["vfio-pci", "vfio-ap"]),
    display=booleans,
    ramfb=booleans,
    kind=st.none() | st.sampled_from(Kind),
    profile=texts,
    mig_backed=booleans,
    iommu_group=texts,
    driver=st.none() | subdomains,
    pool=st.none() | subdomains,
    device=st.none() | labels,
    request=st.none() | request_names,
    source=st.none() | st.sampled_from(Source),
)
device_lists = st.lists(devices, max_size=4, unique_by=(lambda each: each.name, lambda each: each.identity))


@bounded
@given(device_lists)
def test_what_is_written_is_read_back(written):
    text = json.dumps([each.to_json() for each in written])
    assert read_devices(json.loads(text), path="devices") == tuple(written)


# list of devices, path below it, what the refusal says
LISTS = {
    "mapping": ({}, "", "must be a list of devices, got a mapping"),
    "null": (None, "", "must be a list of devices, got null"),
    "33": ([{}] * 33, "", "must hold at most 32 devices, got 33"),
    "device-null": ([None], "[0]", "must be a mapping of fields, got null"),
    "name-absent": ([device(name=...)], "[0].name", "is required"),
    "name-number": ([device(name=1)], "[0].name", "must be text"),
    "identity-absent": ([device(mdevUUID=...)], "[0]", "needs exactly one of mdevUUID and pciAddress"),
    "identity-null": ([device(mdevUUID=None)], "[0]", "needs exactly one of mdevUUID and pciAddress"),
    "both-identities": ([device(pciAddress=ADDRESS)], "[0]", "needs exactly one of mdevUUID and pciAddress"),
    "uuid-malformed": ([device(mdevUUID="x")], "[0].mdevUUID", "not a UUID"),
    "uuid-number": ([device(mdevUUID=5)], "[0].mdevUUID", "must be text"),
    "address-malformed": ([device(mdevUUID=..., pciAddress="../x")], "[0].pciAddress", "not a PCI address"),
    "address-of-a-uuid": ([device(mdevUUID=..., pciAddress=UUID)], "[0].pciAddress", "not a PCI address"),
    "kind-unknown": ([device(kind="gpu")], "[0].kind", "must be one of vgpu-mdev, vgpu-vf, vf, passthrough; got 'gpu'"),
    "source-unknown": ([device(source="me")], "[0].source", "must be one of metadata, environment, service, state"),
    "display-text": ([device(display="on")], "[0].display", "must be true or false"),
    "mig-backed-text": ([device(), device(name="b", migBacked="no")], "[1].migBacked", "must be true or false"),
    "group-number": ([device(iommuGroup=120)], "[0].iommuGroup", "must be text, got an integer: 120"),
}


@pytest.mark.parametrize(("value", "where", "says"), LISTS.values(), ids=LISTS.keys())
def test_wrong_device_is_refused_at_its_path(value, where, says):
    refused = refusal(value)
    assert refused.path == f"devices{where}"
    assert says in refused.message


@pytest.mark.parametrize("name", UNSAFE_NAMES.values(), ids=UNSAFE_NAMES.keys())
def test_unsafe_name_is_refused(name):
    assert refusal([device(name=name)]).path == "devices[0].name"


@bounded
@given(json_values, st.sampled_from([*Device("a", MdevUUID(UUID)).to_json(), "pciAddress"]))
def test_any_value_is_read_or_refused(value, key):
    for candidate in (value, [value], [device(**{key: value})]):
        try:
            read_devices(candidate, path="devices")
        except Refused as refused:
            assert refused.message.startswith("devices")  # noqa: PT017 (both outcomes are right)


def test_two_devices_of_one_name_are_refused():
    refused = refusal([device(), device(mdevUUID=..., pciAddress=ADDRESS)], Reason.DUPLICATE_DEVICE)
    assert refused.message == "two devices are called 'gpu0'"


@pytest.mark.parametrize(
    ("one", "two", "identity"),
    [
        ({"mdevUUID": UUID}, {"mdevUUID": UUID.upper()}, UUID),
        ({"pciAddress": ADDRESS}, {"pciAddress": "3B:00.4"}, ADDRESS),
        ({"pciAddress": ADDRESS}, {"pciAddress": "00000000:3B:00.4"}, ADDRESS),
    ],
    ids=["uuid-case", "short-address", "nvml-address"],
)
def test_vg08_one_device_twice_is_refused_with_both_requests(one, two, identity):
    given_ = [
        {"name": "left", "request": "a"} | one,
        {"name": "other", "pciAddress": "0000:01:00.0"},
        {"name": "right"} | two,
    ]
    refused = refusal(given_, Reason.DUPLICATE_DEVICE)
    assert (
        refused.message
        == f"devices 'left' (request a) and 'right' (request not named) resolve to the same device {identity}"
    )


@pytest.mark.corpus
def test_vg08_two_requests_that_resolve_to_one_uuid_are_refused(bug_inputs):
    data = (bug_inputs / "vg08-same-uuid-two-cases.metadata.json").read_bytes()
    found = [
        Device(f"gpu-{index}", identity_of(allocated, {}), request=allocated.request)
        for index, allocated in enumerate(decode_metadata(data, path="metadata.json"))
    ]
    with pytest.raises(Refused, match=r"\(request a\).*\(request b\).*3f0e2a54-6c1d-4b7a-9f33-0c5d1e2b7a10"):
        check_unique(found)


def test_different_devices_are_unique():
    check_unique([Device("a", MdevUUID(UUID)), Device("b", PciAddress.parse(ADDRESS))])


@pytest.mark.parametrize(
    ("identity", "kind", "vgpu"),
    [
        (MdevUUID(UUID), None, True),
        (MdevUUID(UUID), Kind.VGPU_MDEV, True),
        (PciAddress.parse(ADDRESS), Kind.VGPU_VF, True),
        (PciAddress.parse(ADDRESS), Kind.VF, False),
        (PciAddress.parse(ADDRESS), Kind.PASSTHROUGH, False),
        (PciAddress.parse(ADDRESS), None, False),
    ],
)
def test_mediated_devices_and_vgpu_functions_are_vgpus(identity, kind, vgpu):
    assert Device("a", identity, kind=kind).is_vgpu is vgpu
