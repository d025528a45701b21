"""The strict reader of raw objects."""

import math
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.dra_inputs import MAX_MESSAGE, bounded, json_values

from dra.errors import Refused
from dra.fields import Fields, kind_of, shown
from dra.reasons import Reason

HUGE = 16**100_000


def fields(**raw):
    return Fields(raw, "spec", Reason.INVALID_DEVICES)


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def refusal(call):
    with pytest.raises(Refused) as refused:
        call()
    assert refused.value.reason is Reason.INVALID_DEVICES
    return str(refused.value)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, "true or false"),
        (1, "an integer"),
        (1.0, "a number with a fraction"),
        ("", "text"),
        ([], "a list"),
        ({}, "a mapping"),
        (None, "null"),
        (date(2024, 1, 1), "date"),
    ],
)
def test_kinds_are_named_as_people_call_them(value, kind):
    assert kind_of(value) == kind


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("gpu\u0430\n", "text: 'gpu\\u0430\\n'"),
        (-7, "an integer: -7"),
        (2**64 - 1, "an integer: 18446744073709551615"),
        (HUGE, "an integer: a number of 400001 bits"),
        (-HUGE, "an integer: a number of 400001 bits"),
        (True, "true or false: True"),
        (math.inf, "a number with a fraction: inf"),
        (nested(5000), "a list"),
        ({"a": 1}, "a mapping"),
        (None, "null"),
        (date(2024, 1, 1), "date"),
    ],
    ids=["text", "int", "64-bits", "huge", "minus-huge", "bool", "inf", "deep", "mapping", "null", "date"],
)
def test_values_are_shown_short_and_plain(value, text):
    assert shown(value) == text


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("count", "spec.count"),
        ("gpu.nvidia.com", "spec.gpu.nvidia.com"),
        ("names[3]", "spec.names[3]"),
        ("a\nb", "spec.'a\\nb'"),
        ("", "spec.''"),
        ("c\u043eunt", "spec.'c\\u043eunt'"),
        ("x" * 300, f"spec.'{'x' * 80}'"),
    ],
)
def test_paths_hold_plain_names_and_quote_others(name, path):
    assert fields().at(name) == path


def test_top_level_field_is_its_own_path():
    assert Fields({}, "", Reason.INVALID_DEVICES).at("mode") == "mode"


@pytest.mark.parametrize("value", [None, [], "text", 1, True, 1.5], ids=repr)
def test_what_is_no_mapping_is_refused(value):
    text = refusal(lambda: Fields.of(value, "spec", Reason.INVALID_DEVICES))
    assert text == f"spec: must be a mapping of fields, got {kind_of(value)}"


@pytest.mark.parametrize(
    "key", [1, None, True, 1.5, (1, 2), HUGE], ids=["int", "null", "bool", "float", "tuple", "huge"]
)
def test_keys_that_are_no_text_are_refused(key):
    text = refusal(lambda: Fields.of({"name": "x", key: 1}, "spec", Reason.INVALID_DEVICES))
    assert text.startswith("spec: field names must be text, got ")
    assert len(text) < 200


def test_unknown_field_is_refused_with_the_nearest_known_name():
    text = refusal(lambda: fields(name="a", cuont=1).only(("name", "count")))
    assert text == "spec.cuont: is not a known field: did you mean count?"


def test_unknown_field_far_from_all_is_refused_with_the_known_names():
    text = refusal(lambda: fields(zzz=1).only(("name", "count")))
    assert text == "spec.zzz: is not a known field: known are name, count"


def test_unknown_fields_of_a_lenient_reader_are_told_one_by_one():
    raw = {"name": 1, "cuont": 1, "z\n": 1}
    assert Fields(raw, "", Reason.INVALID_DEVICES).unknown(("name", "count")) == [
        "cuont: is not a known field: did you mean count?",
        "'z\\n': is not a known field: known are name, count",
    ]


def test_known_fields_pass():
    fields(name=1).only(("name",))
    assert fields(name=1).unknown(("name",)) == []


def test_text_is_returned_as_it_is():
    assert fields(name=" x ").text("name") == " x "


@pytest.mark.parametrize("raw", [{}, {"name": None}], ids=["absent", "null"])
def test_absent_and_null_are_the_same(raw):
    reader = fields(**raw)
    assert refusal(lambda: reader.text("name")) == "spec.name: is required"
    assert reader.optional_text("name") is None
    assert reader.optional_boolean("name") is None
    assert reader.optional_choice("name", ["a"]) is None
    assert reader.integer("name", 7, low=1, high=3) == 7
    assert reader.items("name") == []
    assert reader.texts("name") == ()
    assert reader.mapping("name") == Fields({}, "spec.name", Reason.INVALID_DEVICES)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (True, "must be text, got true or false: True: put it in quotes"),
        (5, "must be text, got an integer: 5: put it in quotes"),
        (1e3, "must be text, got a number with a fraction: 1000.0: put it in quotes"),
        (date(2024, 1, 1), "must be text, got date: put it in quotes"),
        (["a"], "must be text, got a list"),
        ({"a": 1}, "must be text, got a mapping"),
    ],
)
def test_what_is_no_text_is_refused_with_the_remedy(value, message):
    assert refusal(lambda: fields(name=value).text("name")) == f"spec.name: {message}"


@pytest.mark.parametrize("value", [True, False])
def test_booleans_are_returned(value):
    assert fields(display=value).optional_boolean("display") is value


@pytest.mark.parametrize("value", ["true", "True", "yes", "enable", "", " true ", 0, 1, 1.0, [], {}], ids=repr)
def test_wh28_what_only_looks_like_a_boolean_is_refused(value):
    text = refusal(lambda: fields(display=value).optional_boolean("display"))
    assert text == f"spec.display: must be true or false, got {shown(value)}"


@pytest.mark.parametrize("value", [1, 2, 32])
def test_integers_within_the_limits_are_returned(value):
    assert fields(count=value).integer("count", 1, low=1, high=32) == value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "must be between 1 and 32, got 0"),
        (33, "must be between 1 and 32, got 33"),
        (-1, "must be between 1 and 32, got -1"),
        (HUGE, "must be between 1 and 32, got a number of 400001 bits"),
        (-HUGE, "must be between 1 and 32, got a number of 400001 bits"),
        (True, "must be an integer, got true or false: True"),
        ("2", "must be an integer, got text: '2'"),
        (1.0, "must be an integer, got a number with a fraction: 1.0"),
        (math.nan, "must be an integer, got a number with a fraction: nan"),
        ([], "must be an integer, got a list"),
    ],
    ids=["0", "33", "-1", "huge", "minus-huge", "true", "text", "1.0", "nan", "list"],
)
def test_what_is_no_integer_within_the_limits_is_refused(value, message):
    assert refusal(lambda: fields(count=value).integer("count", 1, low=1, high=32)) == f"spec.count: {message}"


def test_choice_is_one_of_the_choices():
    assert fields(mode="a").optional_choice("mode", ["a", "b"]) == "a"
    text = refusal(lambda: fields(mode="A").optional_choice("mode", ["a", "b"]))
    assert text == "spec.mode: must be one of a, b; got 'A'"


def test_lists_are_returned_and_everything_else_refused():
    assert fields(names=[1]).items("names") == [1]
    assert refusal(lambda: fields(names="a").items("names")) == "spec.names: must be a list, got text"


def test_texts_are_returned_and_a_wrong_one_refused_at_its_index():
    assert fields(names=["a", "b"]).texts("names") == ("a", "b")
    assert refusal(lambda: fields(names=["a", 1]).texts("names")) == "spec.names[1]: must be text, got an integer"


def test_mapping_within_has_its_own_path():
    inner = fields(service={"url": 1}).mapping("service")
    assert refusal(lambda: inner.text("url")).startswith("spec.service.url: must be text")
    assert refusal(lambda: fields(service=[]).mapping("service")).startswith("spec.service: must be a mapping")


READERS = [
    lambda reader: reader.text("a"),
    lambda reader: reader.optional_boolean("a"),
    lambda reader: reader.integer("a", 1, low=0, high=9),
    lambda reader: reader.optional_choice("a", ["x"]),
    lambda reader: reader.texts("a"),
    lambda reader: reader.mapping("a"),
    lambda reader: reader.only(("a",)),
]


def message_of(call):
    """Return the message of what `call` refuses, None where it takes all."""
    try:
        call()
    except Refused as refused:
        return refused.message
    return None


@bounded
@given(json_values | st.sampled_from([HUGE, -HUGE, nested(5000)]), st.text(max_size=300))
def test_no_value_makes_an_error_long_unprintable_or_of_another_kind(value, key):
    reader = Fields({"a": value, key: value}, "spec", Reason.INVALID_DEVICES)
    for message in filter(None, (message_of(lambda read=read: read(reader)) for read in READERS)):
        assert message.startswith("spec.")
        assert message.isprintable()
        assert len(message) < MAX_MESSAGE
