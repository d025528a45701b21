"""Names that others script against, reasons and errors."""

import re
from dataclasses import FrozenInstanceError, fields

import pytest

from dra import contract
from dra.allocation import AllocatedDevice
from dra.attributes import DEFAULT_NAMES
from dra.claims import PodClaim
from dra.device import Device
from dra.errors import DravirtError, Failed, Refused
from dra.fields import Fields
from dra.identity import MdevUUID, PciAddress
from dra.intent import ClaimedRequest, Intent, Mode, ServiceAddress
from dra.names import is_dns_label
from dra.reasons import Reason
from dra.request import DeviceRequest
from dra.version import __version__

KEYS = [
    contract.DEVICES_ANNOTATION,
    contract.COPIED_ANNOTATION,
    contract.INJECTED_ANNOTATION,
    contract.INJECTED_LABEL,
    contract.PLACEHOLDER_RESOURCE,
]


@pytest.mark.parametrize("key", KEYS)
def test_hs25_keys_are_outside_what_kubevirt_keeps_from_the_pod(key):
    # KubeVirt pkg/virt-controller/services/template.go, filterVMIAnnotationsForPod: these prefixes.
    filtered = (
        "kubectl.kubernetes.io",
        "kubevirt.io/storage-observed-api-version",
        "kubevirt.io/latest-observed-api-version",
    )
    assert not key.startswith(filtered)


@pytest.mark.parametrize("key", KEYS)
def test_keys_are_qualified_names_of_our_domain(key):
    domain, _, name = key.partition("/")
    assert domain == "dravirt.io"
    assert is_dns_label(name)


def test_names_that_installations_rely_on_never_change():
    assert contract.DEVICES_ANNOTATION == "dravirt.io/devices"
    assert contract.COPIED_ANNOTATION == "dravirt.io/copied"
    assert contract.INJECTED_ANNOTATION == contract.INJECTED_LABEL == "dravirt.io/injected"
    assert contract.PLACEHOLDER_RESOURCE == "dravirt.io/gpu"
    assert contract.SIDECAR_CONTAINER == "dravirt-hook"
    assert (contract.STATE_VOLUME, contract.TOKEN_VOLUME) == ("dravirt-state", "dravirt-token")
    assert contract.SOCKET_NAME == "dravirt.sock"
    assert contract.INTENT_ENV == "DRAVIRT_INTENT"
    assert contract.TOKEN_AUDIENCE == "dravirt.io"


def test_placeholder_variable_is_the_one_kubevirt_derives_from_the_resource():
    # KubeVirt pkg/util/util.go, ResourceNameToEnvVar: upper case, "/" and "." become "_".
    derived = re.sub(r"[/.]", "_", contract.PLACEHOLDER_RESOURCE).upper()
    assert f"MDEV_PCI_RESOURCE_{derived}" == contract.PLACEHOLDER_ENV


def test_longest_device_name_fits_a_pod_claim_and_an_alias():
    name = "a" * contract.MAX_DEVICE_NAME
    assert is_dns_label(contract.POD_CLAIM_PREFIX + name)
    for prefix in (contract.PLACEHOLDER_ALIAS, contract.APPEND_ALIAS):
        assert re.fullmatch(r"ua-[A-Za-z0-9_-]+", prefix + name)  # libvirt drops any other alias without a word


def test_placeholder_uuids_are_those_of_the_devices_in_order():
    assert contract.placeholder_uuid(0) == "00000000-0000-4000-8000-000000000000"
    assert contract.placeholder_uuid(31) == "00000000-0000-4000-8000-00000000001f"


def test_reason_codes_are_unique_snake_case():
    codes = [reason.value for reason in Reason]
    assert len(codes) == len(set(codes)) == len(Reason.__members__)  # an equal code would have become an alias
    assert [code for code in codes if not re.fullmatch(r"[a-z]+(_[a-z]+)*", code)] == []


@pytest.mark.parametrize("reason", Reason)
def test_reason_is_its_code_and_carries_a_sentence(reason):
    assert str(reason) == reason.value == reason.name.lower()
    assert Reason(reason.value) is reason
    assert re.fullmatch(r"\S.{10,}[^.\s]", reason.sentence)


def test_sentences_tell_reasons_apart():
    assert len({reason.sentence for reason in Reason}) == len(Reason)


def test_refused_shows_the_field_before_the_message():
    error = Refused(Reason.INVALID_ANNOTATION, "is required", path="a[0].name")
    assert str(error) == error.message == "a[0].name: is required"
    assert (error.reason, error.path) == (Reason.INVALID_ANNOTATION, "a[0].name")


def test_refused_without_a_field_is_its_message():
    error = Refused(Reason.DUPLICATE_DEVICE, "twice")
    assert (str(error), error.path) == ("twice", "")


def test_the_two_families_of_errors_are_apart():
    error = Failed(Reason.UNREADABLE, "the file cannot be read")
    assert (str(error), error.reason) == ("the file cannot be read", Reason.UNREADABLE)
    assert isinstance(error, DravirtError)
    assert not isinstance(error, Refused)


def test_allocated_device_is_named_by_driver_pool_and_device():
    assert str(AllocatedDevice("gpu", "gpu.example.test", "node-7", "v0")) == "gpu.example.test/node-7/v0"


def test_allocated_devices_are_ordered_by_request_driver_pool_device_and_share():
    devices = [
        AllocatedDevice("b", "a", "a", "a"),
        AllocatedDevice("a", "b", "a", "a"),
        AllocatedDevice("a", "a", "b", "a"),
        AllocatedDevice("a", "a", "a", "b"),
        AllocatedDevice("a", "a", "a", "a", share_id="2"),
        AllocatedDevice("a", "a", "a", "a", share_id="1"),
        AllocatedDevice("a", "a", "a", "a"),
    ]
    assert sorted(devices, key=lambda device: device.sort_key) == devices[::-1]


@pytest.mark.parametrize(
    "value",
    [
        MdevUUID.parse("b0a6f6ec-5f0f-4b8e-9c6e-0d3b6f0a7a11"),
        PciAddress.parse("0000:3b:00.4"),
        AllocatedDevice("gpu", "gpu.example.test", "node-7", "v0"),
        DEFAULT_NAMES,
        DeviceRequest("gpu0", template="t"),
        PodClaim("dravirt-gpu0", "t", None, ()),
        Intent(Mode.PLACEHOLDER, ()),
        ClaimedRequest(DeviceRequest("gpu0", template="t"), "dravirt-gpu0"),
        ServiceAddress("u", "c", "s", "t"),
        Device("gpu0", PciAddress.parse("0000:3b:00.4")),
        Fields({}, "", Reason.INVALID_DEVICES),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_that_are_known_cannot_be_changed(value):
    name = fields(value)[0].name
    with pytest.raises(FrozenInstanceError):
        setattr(value, name, getattr(value, name))
    assert not hasattr(value, "__dict__")


def test_version_can_stand_in_an_annotation_and_an_image_tag():
    assert re.fullmatch(r"\d+\.\d+\.\d+(?:[a-z0-9.]+)?", __version__)
