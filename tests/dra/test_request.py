"""The grammar of `dravirt.io/devices`: what is accepted, and what it means."""

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.dra_inputs import ANNOTATION, MAX_MESSAGE, bounded, json_values, labels, request_names, subdomains

from dra.contract import MAX_DEVICE_NAME, MAX_DEVICES
from dra.errors import Refused
from dra.names import is_dns_label
from dra.reasons import Reason
from dra.request import MAX_ANNOTATION, DeviceRequest, parse_requests
from webhook.yamltext import load as load_yaml

LOADERS = pytest.mark.parametrize("load", [json.loads, load_yaml], ids=["json", "yaml"])

LONGEST_ENTRY = {
    "name": "n" * 47,
    "resourceClaimTemplateName": "t" * 253,
    "request": "r" * 63 + "/" + "s" * 63,
    "count": 1,
    "display": True,
    "ramfb": False,
}


def parse(text, load=load_yaml):
    return parse_requests(text, load, path=ANNOTATION)


def never_loaded(text):
    raise AssertionError(f"the short form is decided before any YAML, yet {text!r} was loaded")


@pytest.mark.parametrize(
    "name",
    [
        "a100-1-10c",
        "a.b.c",
        "1e3",
        "1.5",
        "0",
        "007",
        "0x1f",
        "no",
        "off",
        "yes",
        "true",
        "null",
        "nan",
        "2024-01-01",
        "t" * 253,
    ],
)
def test_short_form_is_decided_before_yaml(name):
    expected = (DeviceRequest("gpu0", template=name),)
    assert parse_requests(name, never_loaded, path=ANNOTATION) == expected
    assert parse_requests(f" \t{name}\r\n\n", never_loaded, path=ANNOTATION) == expected


@bounded
@given(subdomains)
def test_every_object_name_is_a_short_form(name):
    assert parse_requests(name, never_loaded, path=ANNOTATION) == (DeviceRequest("gpu0", template=name),)


@LOADERS
def test_all_fields_of_an_entry_are_read(load):
    entry = {
        "name": "gpu0",
        "resourceClaimTemplateName": "a100-1-10c",
        "request": "main/sub",
        "count": 2,
        "display": True,
        "ramfb": False,
    }
    expected = DeviceRequest("gpu0", "a100-1-10c", None, "main/sub", 2, True, False)
    assert parse(json.dumps([entry]), load) == (expected,)


def test_the_form_of_the_documentation_is_read():
    text = """
- name: gpu0                                # device name, DNS label
  resourceClaimTemplateName: a100-1-10c
  request: vgpu
  count: 1
  display: true
- name: gpu1
  resourceClaimName: shared
"""
    assert parse(text) == (
        DeviceRequest("gpu0", template="a100-1-10c", request="vgpu", display=True),
        DeviceRequest("gpu1", claim="shared"),
    )


@pytest.mark.parametrize("name", ["no", "on", "2024-01-01", "0x1f", "a.b.c"])
def test_names_that_only_yaml_1_1_takes_for_something_else_are_names(name):
    (request,) = parse(f"- {{name: gpu0, resourceClaimTemplateName: {name}}}")
    assert request.template == name


@LOADERS
def test_null_is_as_good_as_absent(load):
    entry = {"name": "gpu0", "resourceClaimName": "c"}
    nulls = dict.fromkeys(["resourceClaimTemplateName", "request", "count", "display", "ramfb"])
    assert parse(json.dumps([entry | nulls]), load) == parse(json.dumps([entry]), load)


def test_an_annotation_may_have_as_many_characters_as_the_limit_says():
    assert parse("a100" + " " * (MAX_ANNOTATION - 4)) == (DeviceRequest("gpu0", template="a100"),)


@LOADERS
def test_the_longest_annotation_that_makes_sense_fits_in(load):
    entries = [LONGEST_ENTRY | {"name": f"{'n' * 47}-{index:02}"} for index in range(MAX_DEVICES)]
    text = json.dumps(entries, indent=4)
    assert len(text) < MAX_ANNOTATION
    assert len(parse(text, load)) == MAX_DEVICES


@pytest.mark.parametrize(
    ("count", "names"),
    [(1, ("gpu",)), (2, ("gpu-0", "gpu-1")), (32, tuple(f"gpu-{index}" for index in range(32)))],
)
def test_devices_are_numbered_only_where_there_are_several(count, names):
    (request,) = parse(json.dumps([{"name": "gpu", "resourceClaimName": "c", "count": count}]))
    assert request.device_names == names


@pytest.mark.parametrize(("length", "count"), [(50, 1), (48, 2), (48, 10), (47, 11), (47, 32)])
def test_names_may_have_50_characters_with_their_index(length, count):
    (request,) = parse(json.dumps([{"name": "g" * length, "resourceClaimName": "c", "count": count}]))
    assert max(map(len, request.device_names)) == MAX_DEVICE_NAME


@pytest.mark.parametrize(
    "entries",
    [
        [{"name": "gpu", "count": 2}, {"name": "gpu-2"}],
        [{"name": "gpu"}, {"name": "gpu-0"}],
        [{"name": "gpu", "count": 2}, {"name": "gpu"}],
        [{"name": "a", "count": 16}, {"name": "b", "count": 16}],
        [{"name": "a", "ramfb": True}, {"name": "b", "ramfb": False}, {"name": "c", "display": True}],
        [{"name": "a", "ramfb": True, "display": True}],
        [{"name": "a", "ramfb": False, "count": 2}],
        [{"name": "a", "display": False, "ramfb": False}],
    ],
)
def test_entries_that_only_seem_to_collide_are_accepted(entries):
    whole = [{"resourceClaimTemplateName": "t", **entry} for entry in entries]
    assert [request.name for request in parse(json.dumps(whole))] == [entry["name"] for entry in entries]


@pytest.mark.parametrize(("request_", "base"), [(None, None), ("main", "main"), ("main/sub", "main")])
def test_dr07_a_pod_refers_to_the_request_without_the_sub_request(request_, base):
    assert DeviceRequest("gpu0", claim="c", request=request_).base_request == base


entries = st.fixed_dictionaries(
    {"name": labels},
    optional={
        "request": st.none() | request_names,
        "count": st.none() | st.integers(1, 4),
        "display": st.sampled_from([None, True, False]),
        "ramfb": st.sampled_from([None, False]),
    },
).flatmap(
    lambda entry: st.tuples(st.sampled_from(["resourceClaimTemplateName", "resourceClaimName"]), subdomains).map(
        lambda claim: entry | dict([claim])
    )
)


@bounded
@given(st.lists(entries, min_size=1, max_size=5, unique_by=lambda entry: entry["name"]))
def test_what_is_written_is_what_is_asked_for(written):
    try:
        requests = parse(json.dumps(written))
    except Refused as refused:
        assume("is also a device of entry" not in refused.message)
        raise
    for entry, request in zip(written, requests, strict=True):
        assert request == DeviceRequest(
            name=entry["name"],
            template=entry.get("resourceClaimTemplateName"),
            claim=entry.get("resourceClaimName"),
            request=entry.get("request"),
            count=entry.get("count") or 1,
            display=entry.get("display"),
            ramfb=entry.get("ramfb"),
        )
    names = [name for request in requests for name in request.device_names]
    assert len(names) == len(set(names)) <= MAX_DEVICES
    assert all(is_dns_label(name) and len(name) <= MAX_DEVICE_NAME for name in names)


def answer(text, load):
    """Return the requests in `text`, or the error that refuses it."""
    try:
        return parse_requests(text, load, path=ANNOTATION)
    except Refused as refused:
        return refused


def assert_accepted_or_refused(text, load):
    result = answer(text, load)
    if isinstance(result, Refused):
        assert result.reason is Reason.INVALID_ANNOTATION
        assert result.path.startswith(ANNOTATION)
        assert result.message.startswith(f"{result.path}: ")
        assert len(result.message) < MAX_MESSAGE
        assert result.message.isprintable()
    else:
        assert result


@LOADERS
@bounded
@given(text=st.text(max_size=200) | st.text("[]{}:,-\"'&*!|> \n\tae01", max_size=40))
def test_any_text_is_accepted_or_refused_in_few_words(load, text):
    assert_accepted_or_refused(text, load)


@LOADERS
@bounded
@given(value=json_values | st.lists(entries | json_values, max_size=4))
def test_any_value_is_accepted_or_refused_in_few_words(load, value):
    assert_accepted_or_refused(json.dumps(value), load)


@LOADERS
@bounded
@given(entry=entries, field=st.sampled_from([*LONGEST_ENTRY, "resourceClaimName"]), value=json_values)
def test_any_value_of_a_field_is_accepted_or_refused_in_few_words(load, entry, field, value):
    assert_accepted_or_refused(json.dumps([entry | {field: value}]), load)
