"""KEP-5304 device metadata: the stream of JSON objects that a DRA driver writes."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.dra_inputs import MAX_MESSAGE, UNSAFE_NAMES, bounded, json_values, labels, request_names, subdomains

from dra.allocation import AllocatedDevice
from dra.attributes import identity_of
from dra.errors import Failed, Refused
from dra.identity import MdevUUID, PciAddress
from dra.metadata import MAX_METADATA, MAX_OBJECTS, decode_metadata
from dra.reasons import Reason

PATH = "resourceclaims/lab-claim/gpu/vgpu.example.test-metadata.json"
V1BETA1 = "metadata.resource.k8s.io/v1beta1"
V1ALPHA1 = "metadata.resource.k8s.io/v1alpha1"
V2 = "metadata.resource.k8s.io/v2"
UUID = "3f0e2a54-6c1d-4b7a-9f33-0c5d1e2b7a10"


def device(**fields):
    """Return a device as a driver writes it, with `fields` put in, or taken out where they are given as ...."""
    whole = {
        "name": "v0",
        "driver": "vgpu.example.test",
        "pool": "node-7",
        "attributes": {"mdevUUID": {"string": UUID}},
    } | fields
    return {key: value for key, value in whole.items() if value is not ...}


def metadata(version=V1BETA1, *, requests=None):
    return {
        "kind": "DeviceMetadata",
        "apiVersion": version,
        "metadata": {"name": "lab-claim", "namespace": "team-a", "uid": UUID, "generation": 1},
        "podClaimName": "gpu",
        "requests": [{"name": "gpu", "devices": [device()]}] if requests is None else requests,
    }


def stream(*objects, between="\n", indent=None):
    return between.join(json.dumps(each, indent=indent) for each in objects).encode()


def decode(data):
    return decode_metadata(data, path=PATH)


def refusal(data):
    with pytest.raises(Refused) as refused:
        decode(data)
    assert refused.value.reason is Reason.INVALID_METADATA
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < 2 * MAX_MESSAGE
    return refused.value


def failure(data):
    with pytest.raises(Failed) as failed:
        decode(data)
    assert failed.value.reason is Reason.INVALID_METADATA
    assert failed.value.message.startswith(f"{PATH}: ")
    assert len(failed.value.message) < MAX_MESSAGE
    return failed.value


DEVICE = AllocatedDevice("gpu", "vgpu.example.test", "node-7", "v0", attributes={"mdevUUID": {"string": UUID}})
OTHER = metadata(V1ALPHA1, requests=[{"name": "gpu", "devices": [device(name="other")]}])


@pytest.mark.parametrize("version", [V1BETA1, V1ALPHA1])
@pytest.mark.parametrize("indent", [None, 1, 4], ids=["one-line", "pretty", "pretty-4"])
def test_both_versions_are_read_in_any_layout(version, indent):
    assert decode(stream(metadata(version), indent=indent)) == (DEVICE,)


@pytest.mark.parametrize(
    "between", ["", "\n", "\n\n \r\n\t\n", " "], ids=["nothing", "newline", "blank-lines", "blank"]
)
@pytest.mark.parametrize("indent", [None, 2], ids=["one-line", "pretty"])
def test_dr16_the_first_known_object_of_the_stream_counts(between, indent):
    assert decode(stream(metadata(), OTHER, between=between, indent=indent)) == (DEVICE,)
    assert decode(stream(metadata(V2), metadata(), OTHER, between=between, indent=indent)) == (DEVICE,)


@pytest.mark.parametrize("around", [b"\n", b" \n\t\n", b"\r\n"])
def test_blank_lines_around_the_stream_are_passed_over(around):
    assert decode(around + stream(metadata(), OTHER) + around) == (DEVICE,)


@pytest.mark.parametrize(
    "unknown",
    [
        metadata(V2),
        {"apiVersion": V1BETA1, "claim": {"ref": "lab-claim"}, "results": {"gpu": [{"id": "v0"}]}},
        {"apiVersion": V1BETA1, "requests": {"gpu": []}},
        {"requests": []},
        {},
    ],
    ids=["version", "shape", "shape-of-requests", "no-version", "empty"],
)
def test_dr16_unknown_versions_and_shapes_are_passed_over(unknown):
    assert decode(stream(unknown, metadata(V1ALPHA1))) == (DEVICE,)


def test_dr16_unknown_versions_alone_are_refused_with_the_versions_seen():
    shape = {"apiVersion": V1ALPHA1, "results": []}
    message = refusal(stream(metadata(V2), metadata("v3"), shape, {})).message
    assert message == (
        f"{PATH}: holds no metadata that is understood: apiVersion '{V2}' is not known; apiVersion 'v3' is not known; "
        f"{V1ALPHA1} has no list `requests`; apiVersion '' is not known; known: {V1BETA1}, {V1ALPHA1}"
    )


@pytest.mark.corpus
def test_dr16_input_gives_the_device_of_the_second_object(bug_inputs):
    (found,) = decode((bug_inputs / "dr16-two-versions.metadata.json").read_bytes())
    assert found == DEVICE
    assert identity_of(found, {}) == MdevUUID("3f0e2a54-6c1d-4b7a-9f33-0c5d1e2b7a10")


@pytest.mark.corpus
def test_vg01_input_gives_two_devices_of_two_requests(bug_inputs):
    found = decode((bug_inputs / "vg01-two-vgpus.metadata.json").read_bytes())
    assert [(each.request, each.device, str(identity_of(each, {}))) for each in found] == [
        ("left", "v0", "3f0e2a54-6c1d-4b7a-9f33-0c5d1e2b7a10"),
        ("right", "v1", "77b1c6de-0a4f-4f5c-8e0d-5b9a2c4d6e81"),
    ]


@pytest.mark.corpus
def test_vg25_input_gives_an_address_in_a_domain_of_five_digits(bug_inputs):
    (found,) = decode((bug_inputs / "vg25-domain-10001.metadata.json").read_bytes())
    assert identity_of(found, {}) == PciAddress(0x10001, 0x8A, 0, 0)


def test_devices_of_many_requests_and_drivers_keep_their_order():
    requests = [
        {"name": "b/large", "devices": [device(name="v2"), device(name="v1", driver="other.example.test")]},
        {"name": "none", "devices": []},
        {"name": "null", "devices": None},
        {"name": "absent"},
        {"name": "a", "devices": [device(name="v3", pool="a.b/c")]},
    ]
    found = decode(stream(metadata(requests=requests)))
    assert [(each.request, str(each)) for each in found] == [
        ("b/large", "vgpu.example.test/node-7/v2"),
        ("b/large", "other.example.test/node-7/v1"),
        ("a", "vgpu.example.test/a.b/c/v3"),
    ]


def test_no_request_is_no_device():
    assert decode(stream(metadata(requests=[]))) == ()


def test_attributes_stay_raw_and_may_be_absent():
    attributes = {"a.b/list": {"strings": ["x"]}, "flag": {"bool": True}, "later": {"x": {"y": 1}}}
    requests = [{"name": "gpu", "devices": [device(attributes=attributes), device(name="v1", attributes=...)]}]
    assert [each.attributes for each in decode(stream(metadata(requests=requests)))] == [attributes, {}]


def test_unknown_fields_are_ignored():
    requests = [{"name": "gpu", "later": 1, "devices": [device(networkData={"ips": ["10.0.0.1"]}, later=[1])]}]
    assert decode(stream(metadata(requests=requests) | {"later": {}})) == (DEVICE,)


def assert_cut(data, right, boundaries=()):
    """Assert that a file cut anywhere gives the right answer or a failure to retry, and never another answer."""
    for length in range(len(data)):
        try:
            assert decode(data[:length]) == right
        except Failed:
            continue
        except Refused:
            # Cut between two objects it is a whole file, of which nothing is known.
            assert data[:length].rstrip() in boundaries


@pytest.mark.parametrize("indent", [None, 1], ids=["one-line", "pretty"])
def test_a_file_cut_at_any_byte_is_failed_or_right(indent):
    requests = [{"name": "gpu", "devices": [device(attributes={"productName": {"string": "\u00e9\U0001f600"}})]}]
    data = stream(metadata(requests=requests), OTHER, indent=indent).replace(b"\\u00e9", "\u00e9".encode())
    right = decode(data)
    assert len(right) == 1
    assert_cut(data, right)


def test_dr16_a_file_cut_at_any_byte_is_never_taken_for_another():
    unknown = stream(metadata(V2))
    assert_cut(unknown + b"\n\n" + stream(metadata()), (DEVICE,), boundaries=[unknown])


@pytest.mark.parametrize("data", [b"", b" \n\t"], ids=["empty", "blanks"])
def test_an_empty_file_is_not_written_yet(data):
    assert "is empty: the driver has not written it yet" in failure(data).message


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe{",
        stream(metadata())[:-1] + b"\xc3",
        b"\xef\xbb\xbf" + stream(metadata()),
        b"\x00" * 100,
        b"{]",
        b"mdevUUID=1",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"apiVersion": ' + b"9" * 5000 + b"}",
        stream(metadata(V2)) + b"\n{",
    ],
    ids=[
        "utf-16",
        "half-a-character",
        "byte-order-mark",
        "nul",
        "json",
        "text",
        "lists",
        "mappings",
        "digits",
        "second",
    ],
)
def test_what_cannot_be_read_may_be_cut_and_is_failed(data):
    failure(data)


# the object, path below the file, what the refusal says
OBJECTS = {
    "list": ([], "", "must be a mapping of fields, got a list"),
    "null": (None, "", "must be a mapping of fields, got null"),
    "number": (1, "", "must be a mapping of fields, got an integer"),
    "version-number": (metadata(1), ".apiVersion", "must be text, got an integer: 1"),
    "version-long": (metadata("v" * 100_000), "", "apiVersion 'vvv"),
    "request-null": (metadata(requests=[None]), ".requests[0]", "must be a mapping of fields"),
    "request-name-absent": (metadata(requests=[{}]), ".requests[0].name", "is required"),
    "request-name-parts": (metadata(requests=[{"name": "a/b/c"}]), ".requests[0].name", "name of a request"),
    "devices-mapping": (metadata(requests=[{"name": "a", "devices": {}}]), ".requests[0].devices", "must be a list"),
    "attributes-list": (
        metadata(requests=[{"name": "a", "devices": [device(attributes=[])]}]),
        ".requests[0].devices[0].attributes",
        "must be a mapping of fields, got a list",
    ),
    "device-text": (
        metadata(requests=[{"name": "a"}, {"name": "b", "devices": [device(), "v0"]}]),
        ".requests[1].devices[1]",
        "must be a mapping of fields, got text",
    ),
} | {
    f"{field}-{what}": (
        metadata(requests=[{"name": "a", "devices": [device(**{field: value})]}]),
        f".requests[0].devices[0].{field}",
        says,
    )
    for field in ("name", "driver", "pool")
    for what, value, says in [
        ("absent", ..., "is required"),
        ("number", 1, "must be text"),
        ("traversal", "../x", "must be "),
        ("newline", "x\nlevel=error", "must be "),
        ("long", "x" * 100_000, "must be "),
    ]
}


@pytest.mark.parametrize(("value", "where", "says"), OBJECTS.values(), ids=OBJECTS.keys())
def test_malformed_object_of_a_known_version_is_refused_at_its_path(value, where, says):
    refused = refusal(stream(value))
    assert refused.path == PATH + where
    assert says in refused.message


def test_a_malformed_known_object_is_not_passed_over():
    assert refusal(stream(metadata(requests=[None]), metadata(V1ALPHA1))).path == f"{PATH}.requests[0]"


@pytest.mark.parametrize("name", UNSAFE_NAMES.values(), ids=UNSAFE_NAMES.keys())
def test_unsafe_names_never_come_out(name):
    for field in ("name", "driver", "pool"):
        requests = [{"name": "gpu", "devices": [device(**{field: name})]}]
        assert refusal(stream(metadata(requests=requests))).path == f"{PATH}.requests[0].devices[0].{field}"
    assert refusal(stream(metadata(requests=[{"name": name}]))).path == f"{PATH}.requests[0].name"


def test_a_file_larger_than_the_limit_is_refused():
    padding = b" " * (MAX_METADATA - len(stream(metadata())))
    assert decode(stream(metadata()) + padding) == (DEVICE,)
    assert f"is larger than {MAX_METADATA} bytes" in refusal(stream(metadata()) + padding + b" ").message


def test_the_largest_claim_there_is_stays_below_the_limit():
    attributes = {f"{'d' * 60}{i:03}/{'n' * 32}": {"string": "v" * 64} for i in range(32)}
    devices = [device(name=f"v{index}", attributes=attributes) for index in range(32)]
    written = [metadata(version, requests=[{"name": "gpu", "devices": devices}]) for version in (V1BETA1, V1ALPHA1)]
    assert len(decode(stream(*written))) == 32


def test_a_stream_of_very_many_objects_is_not_followed_to_its_end():
    start = time.process_time()
    message = refusal(b"{}" * (MAX_METADATA // 2)).message
    assert time.process_time() - start < 2
    assert message.count("is not known") == MAX_OBJECTS
    assert decode(b"{}" * (MAX_OBJECTS - 1) + stream(metadata())) == (DEVICE,)


written_devices = st.builds(
    lambda name, driver, pool: device(name=name, driver=driver, pool=pool), labels, subdomains, subdomains
)


@bounded
@given(
    st.lists(st.tuples(request_names, st.lists(written_devices, max_size=3)), max_size=3),
    st.permutations([V1BETA1, V1ALPHA1, V2]),
    st.sampled_from([None, 2]),
)
def test_every_stream_gives_what_the_driver_wrote(requests, versions, indent):
    written = [{"name": name, "devices": devices} for name, devices in requests]
    found = decode(stream(*(metadata(version, requests=written) for version in versions), indent=indent))
    assert [(each.request, each.driver, each.pool, each.device) for each in found] == [
        (name, each["driver"], each["pool"], each["name"]) for name, devices in requests for each in devices
    ]


def assert_decoded_refused_or_failed(data):
    try:
        found = decode(data)
    except (Refused, Failed) as error:
        assert error.reason is Reason.INVALID_METADATA  # noqa: PT017 (all three outcomes are right)
    else:
        assert all(isinstance(each, AllocatedDevice) for each in found)


@bounded
@given(
    st.binary(max_size=60)
    | st.text('{}[]:, \n"a1', max_size=60).map(str.encode)
    | st.lists(json_values).map(lambda v: stream(*v))
)
def test_any_bytes_are_decoded_refused_or_failed(data):
    assert_decoded_refused_or_failed(data)


@bounded
@given(json_values, st.sampled_from([*device()]))
def test_any_value_is_decoded_refused_or_failed(value, field):
    for requests in (value, [value], [{"name": value, "devices": value}], [{"name": "a", "devices": [value]}]):
        assert_decoded_refused_or_failed(stream(metadata(requests=requests)))
    assert_decoded_refused_or_failed(stream(metadata(requests=[{"name": "a", "devices": [device(**{field: value})]}])))
