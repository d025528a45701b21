"""The resolver: exactly the devices asked for, in an order that never moves, or an error that says what to do."""

import shutil
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.claimed import (
    DRIVER,
    STANDARD_PCI,
    allocated,
    entry,
    intent,
    metadata_json,
    template_folder,
    write_metadata,
)

from dra.device import Device, Source
from dra.errors import DravirtError, Failed, Refused
from dra.identity import MdevUUID, PciAddress
from dra.metadata import decode_metadata
from dra.reasons import Reason
from hooksidecar.candidates import Candidate
from hooksidecar.environment import Environment
from hooksidecar.metadatafiles import MetadataFiles
from hooksidecar.resolver import resolve
from hooksidecar.sources import device_sources

A, B, C = (f"3f0e2a54-6c1d-4b7a-9f33-0c5d1e2b7a1{digit}" for digit in "abc")


@dataclass
class Known:
    """A source that says what it was given by the name of the entry: devices as in metadata, identities, an error."""

    answers: dict
    name: Source = Source.SERVICE
    asked: list = field(default_factory=list)

    def find(self, wanted, taken):
        self.asked.append(([want.entry.request.name for want in wanted], set(taken)))
        return [self._answer(self.answers.get(want.entry.request.name)) for want in wanted]

    def _answer(self, said):
        if said is None or isinstance(said, DravirtError):
            return said or Failed(Reason.UNRESOLVED, "has never heard of it")
        if isinstance(said, dict):
            devices = decode_metadata(metadata_json(said).encode(), path="said")
            return tuple(Candidate(device) for device in devices)
        return tuple(Candidate(identity=MdevUUID.parse(uuid)) for uuid in said)


def identities(devices):
    return {device.name: str(device.identity) for device in devices}


def refusal(family, reason, an_intent, *sources):
    with pytest.raises(family) as raised:
        resolve(an_intent, sources)
    assert raised.value.reason is reason
    return raised.value.message


def test_device_carries_what_the_source_said():
    device = allocated("v0", mdevUUID=A.upper(), profile="NVIDIA A100-1-5C")
    source = Known({"gpu0": {"vgpu": [device]}}, Source.METADATA)
    assert resolve(intent(entry(request="vgpu", display=True, ramfb=True)), [source]) == (
        Device(
            "gpu0",
            MdevUUID.parse(A),
            display=True,
            ramfb=True,
            profile="NVIDIA A100-1-5C",
            driver=DRIVER,
            pool="node-7",
            device="v0",
            request="vgpu",
            source=Source.METADATA,
        ),
    )


def test_first_source_that_knows_the_device_decides():
    first = Known({"a": {"gpu": [allocated("v0", mdevUUID=A)]}}, Source.METADATA)
    second = Known({"a": [B], "b": [C]}, Source.ENVIRONMENT)
    devices = resolve(intent(entry("a"), entry("b")), [first, second])
    assert identities(devices) == {"a": A, "b": C}
    assert [device.source for device in devices] == [Source.METADATA, Source.ENVIRONMENT]
    assert second.asked == [(["b"], {MdevUUID.parse(A)})]


def test_dr12_metadata_alone_is_enough():
    silent = Known({})
    assert identities(resolve(intent(entry()), [Known({"gpu0": {"gpu": [allocated("v0", mdevUUID=A)]}}), silent]))
    assert silent.asked == []


def test_device_without_identity_is_asked_for_elsewhere():
    metadata = Known({"gpu0": {"gpu": [allocated("v0")]}}, Source.METADATA)
    environment = Environment({"MDEV_PCI_RESOURCE_X": A}, {})
    [device] = resolve(intent(entry()), [metadata, environment])
    assert (str(device.identity), device.source, device.device) == (A, Source.ENVIRONMENT, "v0")


def test_device_without_identity_anywhere_is_named_with_its_attributes():
    source = Known({"gpu0": {"gpu": [allocated("v0", uuid=A, model="A40")]}}, Source.METADATA)
    text = refusal(Failed, Reason.NO_IDENTITY, intent(entry()), source)
    assert f"{DRIVER}/node-7/v0 with attributes model, uuid" in text
    assert "attributes" in text


IDENTITIES = {
    "bare-mdev": ({"mdevUUID": A}, MdevUUID.parse(A)),
    "qualified-mdev": ({f"{DRIVER}/mdevUUID": A}, MdevUUID.parse(A)),
    "mdev-before-addresses": ({"pci": "0000:41:00.0", "pciBusID": "0000:41:00.4", "mdevUUID": A}, MdevUUID.parse(A)),
    "own-address-before-the-standard-one": (
        {"pci": "0000:18:00.0", "pciBusID": "0000:18:00.4"},
        PciAddress(0, 0x18, 0, 4),
    ),
    "wide-domain": ({"pci": "10001:8A:00.0"}, PciAddress(0x10001, 0x8A, 0, 0)),
}


@pytest.mark.parametrize(("attributes", "identity"), IDENTITIES.values(), ids=IDENTITIES)
def test_dr18_identity_is_taken_from_the_driver_s_attributes(attributes, identity):
    [device] = resolve(intent(entry()), [Known({"gpu0": {"gpu": [allocated("v0", **attributes)]}})])
    assert device.identity == identity


def test_dr18_plain_uuid_is_no_mdev():
    refusal(Failed, Reason.NO_IDENTITY, intent(entry()), Known({"gpu0": {"gpu": [allocated("v0", uuid=A)]}}))


def test_dr18_configured_attribute_is_taken():
    configured = {DRIVER: {"mdevUUID": ["uuid"]}}
    source = Known({"gpu0": {"gpu": [allocated("v0", uuid=A)]}})
    assert identities(resolve(intent(entry(), attributes=configured), [source])) == {"gpu0": A}


def test_malformed_attribute_is_refused_and_no_other_source_is_asked():
    other = Known({"gpu0": [A]})
    text = refusal(
        Refused,
        Reason.INVALID_ATTRIBUTE,
        intent(entry()),
        Known({"gpu0": {"gpu": [allocated("v0", mdevUUID="7")]}}),
        other,
    )
    assert text.startswith("device 'gpu0' (claim template 'vgpu', all requests, pod claim 'dravirt-gpu0'): ")
    assert other.asked == []


COUNTS = {
    "two-candidates": (1, ["v0", "v1"]),
    "fewer": (3, ["v0", "v1"]),
    "none": (1, []),
}


@pytest.mark.parametrize(("count", "there"), COUNTS.values(), ids=COUNTS)
def test_another_number_of_devices_than_asked_for_is_refused(count, there):
    devices = [allocated(name, mdevUUID=uuid) for name, uuid in zip(there, (A, B), strict=False)]
    asked = intent(entry(count=count, request="vgpu", claim="lab"))
    text = refusal(Refused, Reason.WRONG_COUNT, asked, Known({"gpu0": {"vgpu": devices}}), Known({"gpu0": [C] * count}))
    assert f"device 'gpu0' (claim 'lab', request 'vgpu', pod claim 'dravirt-gpu0'): count is {count}, " in text
    assert f"names {len(there)} device(s)" in text
    assert all(f"{DRIVER}/node-7/{name}" in text for name in there)


def test_count_is_checked_before_another_source_may_fill_in():
    metadata = Known({"gpu0": {"gpu": [allocated("v0"), allocated("v1")]}})
    refusal(Refused, Reason.WRONG_COUNT, intent(entry()), metadata, Known({"gpu0": [A]}))


def test_same_device_for_two_entries_names_both_requests():
    sources = Known(
        {"a": {"left": [allocated("v0", mdevUUID=A)]}, "b": {"right": [allocated("v1", mdevUUID=A.upper())]}}
    )
    text = refusal(Refused, Reason.DUPLICATE_DEVICE, intent(entry("a"), entry("b")), sources)
    assert "'a' (request left)" in text
    assert "'b' (request right)" in text
    assert A in text


@pytest.mark.corpus
def test_vg08_same_uuid_in_two_cases_is_refused(tmp_path, bug_inputs):
    for request in ("a", "b"):
        folder = template_folder(tmp_path, request)
        folder.mkdir(parents=True)
        shutil.copy(bug_inputs / "vg08-same-uuid-two-cases.metadata.json", folder / "vgpu.example.test-metadata.json")
    two = intent(entry("x", request="a", podClaim="dravirt-gpu0"), entry("y", request="b", podClaim="dravirt-gpu0"))
    text = refusal(Refused, Reason.DUPLICATE_DEVICE, two, MetadataFiles(tmp_path))
    assert "(request a)" in text
    assert "(request b)" in text
    assert "3f0e2a54-6c1d-4b7a-9f33-0c5d1e2b7a10" in text


@pytest.mark.corpus
def test_vg25_wide_pci_domain_is_kept(tmp_path, bug_inputs):
    folder = template_folder(tmp_path, "gpu")
    folder.mkdir(parents=True)
    shutil.copy(bug_inputs / "vg25-domain-10001.metadata.json", folder / "vgpu.example.test-metadata.json")
    assert identities(resolve(intent(entry()), [MetadataFiles(tmp_path)])) == {"gpu0": "10001:8a:00.0"}


def test_vg09_missing_request_is_named(tmp_path):
    write_metadata(template_folder(tmp_path, "left"), allocated("v0", mdevUUID=A))
    two = intent(
        entry("a", request="left", podClaim="dravirt-gpu0"), entry("b", request="right", podClaim="dravirt-gpu0")
    )
    text = refusal(Refused, Reason.UNKNOWN_REQUEST, two, *device_sources(two, metadata_dir=tmp_path, environ={}))
    assert "device 'b' (claim template 'vgpu', request 'right'" in text
    assert "there is left" in text


def test_vg09_fewer_devices_than_counted_are_refused(tmp_path):
    write_metadata(template_folder(tmp_path, "left"), allocated("v0", mdevUUID=A))
    assert "count is 2, but metadata names 1" in refusal(
        Refused, Reason.WRONG_COUNT, intent(entry(count=2)), MetadataFiles(tmp_path)
    )


def test_dr04_no_claim_metadata_at_all_names_the_likely_causes(tmp_path):
    asked = intent(entry(request="vgpu"), entry("gpu1"))
    sources = device_sources(asked, metadata_dir=tmp_path / "absent", environ={"PATH": "/bin"})
    text = refusal(Failed, Reason.UNRESOLVED, asked, *sources)
    assert f"Metadata: {template_folder(tmp_path / 'absent', 'x').parent} is not there" in text
    assert "Environment: no variable MDEV_PCI_RESOURCE_*" in text
    assert "Nor is it known for gpu1" in text
    for cause in (
        "API server",
        "does not list the claim",
        "PassthroughSupport and DeviceMetadata",
        "enableDeviceMetadata",
    ):
        assert cause in text
    assert len(text) < 4000


def test_reason_is_the_first_that_says_more_than_not_known(tmp_path):
    asked = intent(entry(request="vgpu"))
    sources = device_sources(asked, metadata_dir=tmp_path, environ={"MDEV_PCI_RESOURCE_X": f"{A},{B}"})
    text = refusal(Failed, Reason.AMBIGUOUS_ENVIRONMENT, asked, *sources)
    assert "Name the variables of each driver" in text


def test_broken_metadata_gives_way_to_a_source_that_knows(tmp_path):
    write_metadata(template_folder(tmp_path, "vgpu"), allocated("v0", mdevUUID=A)).write_text("{")
    asked = intent(entry(request="vgpu"))
    assert identities(resolve(asked, device_sources(asked, metadata_dir=tmp_path, environ={"MDEV_PCI_RESOURCE_X": B})))
    refusal(Failed, Reason.INVALID_METADATA, asked, *device_sources(asked, metadata_dir=tmp_path, environ={}))


POOL = [
    (f"node-{pool}", f"v{device}", driver)
    for pool in (1, 2)
    for device in range(3)
    for driver in ("a.example", "b.example")
]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    order=st.permutations(POOL),
    drivers=st.permutations(["a.example", "b.example"]),
    requests=st.permutations(["r1", "r2"]),
    silent=st.booleans(),
)
def test_order_of_sources_files_and_results_never_moves_a_name(tmp_path_factory, order, drivers, requests, silent):
    folder = tmp_path_factory.mktemp("metadata")
    uuids = {key: f"3f0e2a54-6c1d-4b7a-9f33-0c5d1e2b7a{index:02x}" for index, key in enumerate(POOL)}
    for request in requests:
        for driver in drivers:
            keys = [key for key in order if key[2] == driver and (key[1] == "v0") == (request == "r2")]
            devices = [allocated(key[1], driver=driver, pool=key[0], mdevUUID=uuids[key]) for key in keys]
            write_metadata(template_folder(folder, request), *devices, driver=driver)
    expected = sorted(POOL, key=lambda key: ("r2" if key[1] == "v0" else "r1", key[2], key[0], key[1]))
    sources = [Known({}), MetadataFiles(folder)] if silent else [MetadataFiles(folder), Known({})]
    devices = resolve(intent(entry("gpu0", count=len(POOL), display=True)), sources)
    assert identities(devices) == {f"gpu0-{index}": uuids[key] for index, key in enumerate(expected)}
    assert all(device.display for device in devices)


def test_shared_device_is_ordered_by_its_identity():
    shares = [allocated("v0", mdevUUID=uuid) for uuid in (B, A)]
    assert identities(resolve(intent(entry(count=2)), [Known({"gpu0": {"gpu": shares}})])) == {"gpu0-0": A, "gpu0-1": B}


def test_standard_address_is_the_last_resort():
    attributes = {STANDARD_PCI: "0000:65:00.0"}
    [device] = resolve(intent(entry()), [Known({"gpu0": {"gpu": [allocated("v0", **attributes)]}})])
    assert device.identity == PciAddress(0, 0x65, 0, 0)
