"""The intent that the webhook hands to the sidecar."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.dra_inputs import MAX_MESSAGE, bounded, json_values, labels, subdomains

from dra.attributes import DEFAULT_NAMES, KNOWN_DRIVERS, AttributeNames
from dra.claims import pod_claims
from dra.errors import Refused
from dra.fields import Fields
from dra.intent import (
    ClaimedRequest,
    Intent,
    Mode,
    ServiceAddress,
    attributes_to_json,
    read_attributes,
    read_environment,
    read_intent,
)
from dra.reasons import Reason
from dra.request import DeviceRequest

PATH = "DRAVIRT_INTENT"
SERVICE = ServiceAddress(
    url="https://dravirt-webhook.dravirt-system.svc/v1/allocations",
    ca="-----BEGIN CERTIFICATE-----\n",
    server_name="dravirt-webhook.dravirt-system.svc",
    token_path="/var/run/secrets/dravirt/token",
)


def device(**fields):
    """Return a device as the contract shows it, with `fields` put in, or taken out where they are given as ...."""
    whole = {
        "name": "gpu0",
        "podClaim": "dravirt-gpu0",
        "template": "a100-1-10c",
        "claim": None,
        "request": None,
        "count": 1,
        "display": None,
        "ramfb": None,
    } | fields
    return {key: value for key, value in whole.items() if value is not ...}


def intent(**fields):
    whole = {"version": 1, "mode": "placeholder", "devices": [device()], "service": None} | fields
    return {key: value for key, value in whole.items() if value is not ...}


def read(value):
    return read_intent(json.dumps(value), path=PATH)


def refusal(text):
    with pytest.raises(Refused) as refused:
        read_intent(text, path=PATH)
    assert refused.value.reason is Reason.INVALID_INTENT
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < MAX_MESSAGE
    return refused.value


def intent_of(*requests, **options):
    return Intent.of(Mode.PLACEHOLDER, pod_claims(requests, path="devices"), requests, **options)


def test_intent_is_written_as_the_contract_shows_it():
    request = DeviceRequest("gpu0", template="a100-1-10c")
    assert intent_of(request) == Intent(Mode.PLACEHOLDER, (ClaimedRequest(request, "dravirt-gpu0"),))
    assert json.loads(intent_of(request).to_json()) == intent()


def test_the_intent_of_the_contract_is_read():
    expected = ClaimedRequest(DeviceRequest("gpu0", template="a100-1-10c"), "dravirt-gpu0")
    assert read(intent()) == Intent(Mode.PLACEHOLDER, (expected,))


def test_the_least_intent_is_read():
    assert read(
        {"version": 1, "devices": [{"name": "gpu0", "podClaim": "dravirt-gpu0", "template": "a100-1-10c"}]}
    ) == read(intent())


def test_as_many_devices_as_a_vm_can_have_are_read():
    assert len(read(intent(devices=[device(name=f"g{index}") for index in range(32)])).devices) == 32


def test_every_option_comes_back():
    requests = (
        DeviceRequest("a", claim="c", request="r/x", count=2, display=True),
        DeviceRequest("b", template="t", display=False, ramfb=False),
        DeviceRequest("d", claim="c", request="s", ramfb=True),
    )
    attributes = {"gpu.example.test": AttributeNames(("uuid",), ("bdf", "a.b/c"), ("name",))}
    environment = {"gpu.example.test": ("GPU_UUID", "MDEV_PCI_RESOURCE_NVIDIA_COM_GRID_T4-2Q")}
    claims = pod_claims(requests, path="devices")
    written = Intent.of(Mode.APPEND, claims, requests, service=SERVICE, attributes=attributes, environment=environment)
    assert (written.mode, written.service) == (Mode.APPEND, SERVICE)
    assert (written.attributes, written.environment) == (attributes, environment)
    assert [claimed.pod_claim for claimed in written.devices] == ["dravirt-a-0", "dravirt-b", "dravirt-a-0"]
    assert read_intent(written.to_json(), path=PATH) == written


def test_service_is_written_as_the_contract_shows_it():
    written = json.loads(intent_of(DeviceRequest("a", claim="c"), service=SERVICE).to_json())
    assert written["service"] == {
        "url": SERVICE.url,
        "ca": SERVICE.ca,
        "serverName": SERVICE.server_name,
        "tokenPath": SERVICE.token_path,
    }


def test_requests_keep_their_order_whatever_the_order_of_the_claims():
    requests = (
        DeviceRequest("z", claim="c", request="r"),
        DeviceRequest("y", template="t"),
        DeviceRequest("x", claim="c", request="s"),
    )
    assert [claimed.request for claimed in intent_of(*requests).devices] == list(requests)


def test_entries_of_one_name_keep_their_own_pod_claims():
    # `gpu` with a count of 2 is gpu-0 and gpu-1: it may stand beside `gpu`.
    several, one = DeviceRequest("gpu", template="t", count=2), DeviceRequest("gpu", template="u")
    assert [claimed.pod_claim for claimed in intent_of(several, one).devices] == ["dravirt-gpu-0", "dravirt-gpu"]


requests_ = st.builds(
    DeviceRequest,
    name=labels,
    template=subdomains,
    request=st.none() | labels,
    count=st.integers(1, 3),
    display=st.sampled_from([None, True]),
    ramfb=st.sampled_from([None, False]),
)
attribute_names = st.lists(st.sampled_from(["a", "b_1", "c.d/e"]), min_size=1, max_size=3).map(tuple)


@bounded
@given(
    st.sampled_from(Mode),
    st.lists(requests_, min_size=1, max_size=4),
    st.sampled_from([None, SERVICE]),
    st.dictionaries(
        subdomains, st.builds(AttributeNames, attribute_names, attribute_names, attribute_names), max_size=2
    ),
    st.dictionaries(subdomains, st.lists(st.just("GPU-0_x.y"), min_size=1, max_size=2).map(tuple), max_size=2),
)
def test_what_is_written_is_read_back(mode, requests, service, attributes, environment):
    requests = tuple(
        replace(request, name=f"{index}x{request.name}", template=f"{index}.{request.template}")
        for index, request in enumerate(requests)
    )
    claims = pod_claims(requests, path="devices")
    written = Intent.of(mode, claims, requests, service=service, attributes=attributes, environment=environment)
    assert read_intent(written.to_json(), path=PATH) == written


def test_unknown_keys_of_a_later_release_are_ignored():
    later = intent(
        devices=[device(migration={"x": 1})],
        service={"url": "u", "ca": "c", "serverName": "s", "tokenPath": "t", "retry": 3},
        attributes={"gpu.example.test": {"mdevUUID": ["uuid"], "later": 1}},
        plan=[1, 2],
    )
    service = ServiceAddress("u", "c", "s", "t")
    names = {"gpu.example.test": AttributeNames(mdev_uuid=("uuid",))}
    assert read(later) == replace(read(intent()), service=service, attributes=names)


@pytest.mark.parametrize("version", [0, 2, 1_000_000])
def test_unknown_version_is_an_error_of_its_own(version):
    # Nothing else of such an intent is looked at: it may have another shape.
    refused = refusal(json.dumps({"version": version, "devices": "elsewhere"}))
    assert refused.path == f"{PATH}.version"
    assert f"version {version} is not known to this sidecar (it knows 1): use images of one release" in refused.message


# the intent, path of the field at fault, what the refusal says
INTENTS = {
    "list": ([], "", "must be a mapping of fields, got a list"),
    "null": (None, "", "must be a mapping of fields, got null"),
    "text": ("a100", "", "must be a mapping of fields, got text"),
    "version-absent": (intent(version=...), ".version", "version 0 is not known"),
    "version-text": (intent(version="1"), ".version", "must be an integer"),
    "version-true": (intent(version=True), ".version", "must be an integer"),
    "version-fraction": (intent(version=1.0), ".version", "must be an integer"),
    "version-huge": (intent(version=10**4000), ".version", "must be between 0 and 1000000"),
    "mode-unknown": (intent(mode="rewrite"), ".mode", "must be one of placeholder, append; got 'rewrite'"),
    "mode-number": (intent(mode=1), ".mode", "must be text"),
    "devices-absent": (intent(devices=...), ".devices", "must hold 1 to 32 devices, got 0"),
    "devices-empty": (intent(devices=[]), ".devices", "must hold 1 to 32 devices, got 0"),
    "devices-mapping": (intent(devices={}), ".devices", "must be a list, got a mapping"),
    "devices-33": (
        intent(devices=[device(name=f"g{index}") for index in range(33)]),
        ".devices",
        "must hold 1 to 32 devices, got 33",
    ),
    "devices-33-by-count": (
        intent(devices=[device(count=32), device(name="b")]),
        ".devices",
        "must ask for at most 32 devices in all, got 33",
    ),
    "device-text": (intent(devices=["gpu0"]), ".devices[0]", "must be a mapping of fields"),
    "device-name-traversal": (intent(devices=[device(name="../x")]), ".devices[0].name", "DNS label"),
    "device-name-absent": (intent(devices=[device(name=...)]), ".devices[0].name", "is required"),
    "device-name-twice": (intent(devices=[device(), device()]), ".devices[1].name", "also a device of entry [0]"),
    "pod-claim-absent": (intent(devices=[device(podClaim=...)]), ".devices[0].podClaim", "is required"),
    "pod-claim-traversal": (intent(devices=[device(podClaim="..")]), ".devices[0].podClaim", "DNS label"),
    "pod-claim-slash": (intent(devices=[device(podClaim="a/b")]), ".devices[0].podClaim", "DNS label"),
    "no-claim": (intent(devices=[device(template=None)]), ".devices[0]", "needs exactly one of template and claim"),
    "both-claims": (intent(devices=[device(claim="c")]), ".devices[0]", "needs exactly one of template and claim"),
    "template-traversal": (intent(devices=[device(template="../x")]), ".devices[0].template", "DNS subdomain"),
    "claim-traversal": (
        intent(devices=[device(template=None, claim="../x")]),
        ".devices[0].claim",
        "DNS subdomain",
    ),
    "request-traversal": (intent(devices=[device(request="../x")]), ".devices[0].request", "name of a request"),
    "count-0": (intent(devices=[device(count=0)]), ".devices[0].count", "must be between 1 and 32"),
    "display-text": (intent(devices=[device(display="on")]), ".devices[0].display", "must be true or false"),
    "two-ramfb": (
        intent(devices=[device(ramfb=True), device(name="b", ramfb=True)]),
        ".devices[1].ramfb",
        "entry [0] has it already",
    ),
    "service-list": (intent(service=[]), ".service", "must be a mapping of fields"),
    "service-empty": (intent(service={}), ".service.url", "is required"),
    "service-number": (intent(service={"url": 1}), ".service.url", "must be text"),
    "attributes-list": (intent(attributes=[]), ".attributes", "must be a mapping of fields"),
    "attributes-driver": (intent(attributes={"../x": {}}), ".attributes.'../x'", "must be the name of a DRA driver"),
    "attributes-driver-look-alike": (
        intent(attributes={"gpu.\u0430md.com": {}}),
        ".attributes.'gpu.\\u0430md.com'",
        "must be the name of a DRA driver",
    ),
    "attributes-name": (
        intent(attributes={"a.b": {"mdevUUID": ["uuid", "a b"]}}),
        ".attributes.a.b.mdevUUID[1]",
        "must be an attribute, `name` or `domain/name`, got 'a b'",
    ),
    "attributes-text": (intent(attributes={"a.b": {"profile": "x"}}), ".attributes.a.b.profile", "must be a list"),
    "environment-driver": (intent(environment={"A": []}), ".environment.A", "must be the name of a DRA driver"),
    "environment-name": (
        intent(environment={"a.b": ["X=1"]}),
        ".environment.a.b[0]",
        "must be the name of an environment variable, got 'X=1'",
    ),
    "environment-nul": (intent(environment={"a.b": ["OK", "X\x00"]}), ".environment.a.b[1]", "got 'X\\x00'"),
    "environment-long": (intent(environment={"a.b": ["X" * 254]}), ".environment.a.b[0]", "got 'XXX"),
    "environment-text": (intent(environment={"a.b": "X"}), ".environment.a.b", "must be a list"),
}


@pytest.mark.parametrize(("value", "where", "says"), INTENTS.values(), ids=INTENTS.keys())
def test_broken_intent_is_refused_at_its_path(value, where, says):
    refused = refusal(json.dumps(value))
    assert refused.path == PATH + where
    assert says in refused.message


@pytest.mark.parametrize(
    "text",
    ["", "{", "\x00", "a100", "[" * 100_000, '{"a":' * 10_000, '{"version": ' + "1" * 5000 + "}", "{} {}"],
    ids=["empty", "cut", "nul", "short-form", "brackets", "braces", "digits", "two-objects"],
)
def test_what_is_no_json_is_refused(text):
    refused = refusal(text)
    assert refused.path == PATH
    assert "is no JSON" in refused.message


@bounded
@given(json_values, st.sampled_from([*intent(), "attributes", "environment"]), st.sampled_from([*device()]))
def test_any_value_is_read_or_refused(value, key, field):
    for candidate in (value, intent(**{key: value}), intent(devices=[device(**{field: value})])):
        try:
            read(candidate)
        except Refused as refused:
            assert refused.reason is Reason.INVALID_INTENT  # noqa: PT017 (both outcomes are right)


def fields(value):
    return Fields(value, "attributes", Reason.INVALID_CONFIGURATION)


def test_lists_that_are_not_configured_stay_as_they_are_known():
    configured = read_attributes(
        fields(
            {"gpu.amd.com": {"profile": ["name"]}, "new.example.test": {"mdevUUID": ["uuid"]}, "gpu.intel.com": None}
        )
    )
    assert configured == {
        "gpu.amd.com": replace(KNOWN_DRIVERS["gpu.amd.com"], profile=("name",)),
        "new.example.test": replace(DEFAULT_NAMES, mdev_uuid=("uuid",)),
        "gpu.intel.com": KNOWN_DRIVERS["gpu.intel.com"],
    }


def test_configured_attributes_are_written_as_they_are_read():
    written = {"mdevUUID": ["uuid"], "pciAddress": ["bdf", "a.b/c"], "profile": ["name"]}
    names = read_attributes(fields({"gpu.example.test": written}))["gpu.example.test"]
    assert names == AttributeNames(("uuid",), ("bdf", "a.b/c"), ("name",))
    assert attributes_to_json(names) == written


def test_variables_of_the_environment_may_hold_what_kubevirt_puts_into_them():
    name = "MDEV_PCI_RESOURCE_NVIDIA_COM_GRID_T4-2Q"
    assert read_environment(fields({"gpu.example.test": [name], "b": None})) == {"gpu.example.test": (name,), "b": ()}
