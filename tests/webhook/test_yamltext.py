"""YAML is read strictly: no surprise in a scalar, no structure that hides another, every error with its place."""

import contextlib
import time

import pytest
import yaml

from webhook import yamltext
from webhook.yamltext import MAX_DEPTH, load


@pytest.fixture(params=["libyaml", "python"])
def loader(request, monkeypatch):
    """Both parsers of PyYAML: the second is what an installation without libyaml gets."""
    assert yaml.__with_libyaml__
    monkeypatch.setattr(yamltext, "_Loader", yaml.CSafeLoader if request.param == "libyaml" else yaml.SafeLoader)


SCALARS = {
    "a": "a",
    "": None,
    "~": None,
    "null": None,
    "true": True,
    "FALSE": False,
    "yes": "yes",
    "no": "no",
    "on": "on",
    "Off": "Off",
    "y": "y",
    "0": 0,
    "-17": -17,
    "+4": 4,
    "010": "010",
    "0o17": "0o17",
    "0x1F": "0x1F",
    "0b1": "0b1",
    "1_000": "1_000",
    "12:30:45": "12:30:45",
    "2024-01-01": "2024-01-01",
    "1.5": 1.5,
    ".5": 0.5,
    "1e3": 1000.0,
    "00.5": "00.5",
    "1.2.3": "1.2.3",
    "50m": "50m",
    "'true'": "true",
    '"1"': "1",
    "<<": "<<",
    "=": "=",
}


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize(("text", "value"), SCALARS.items(), ids=SCALARS)
def test_scalars_are_those_of_the_core_schema_without_its_surprises(text, value):
    read = load(f"key: {text}\n")

    assert read == {"key": value}
    assert type(read["key"]) is type(value)


def nested_list(depth):
    return [] if depth == 1 else [nested_list(depth - 1)]


DOCUMENTS = {
    "nothing": ("", None),
    "comment only": ("# nothing set\n", None),
    "block": ("- name: gpu0\n  count: 2\n- name: gpu1\n", [{"name": "gpu0", "count": 2}, {"name": "gpu1"}]),
    "flow": ("[{name: gpu0, count: 2}]", [{"name": "gpu0", "count": 2}]),
    "json": ('[{"name": "gpu0", "display": null, "count": 2}]', [{"name": "gpu0", "display": None, "count": 2}]),
    "json with tabs": ('{\n\t"a":\t[1,\n\t2]\n}', {"a": [1, 2]}),
    "json with a pair of escapes": ('["\\ud83d\\ude00 \\/"]', ["\U0001f600 /"]),
    "flow with tabs": ("[a\t,\tb]", ["a", "b"]),
    "block text": ("a: |\n  one\n  two\n", {"a": "one\ntwo\n"}),
    "one document with its markers": ("---\na: 1\n...\n", {"a": 1}),
    "keys of other types": ("1: a\n1.5: b\n", {1: "a", 1.5: "b"}),
    "merge key is a key": ("<<: {a: 1}", {"<<": {"a": 1}}),
    "byte order mark": ("\ufeffa: 1", {"a": 1}),
    "as deep as allowed": ("[" * MAX_DEPTH + "]" * MAX_DEPTH, nested_list(MAX_DEPTH)),
}


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize(("text", "value"), DOCUMENTS.values(), ids=DOCUMENTS)
def test_reads(text, value):
    assert load(text) == value


REFUSED = {
    "duplicate key": ("a: 1\nb: 2\na: 3\n", "line 3, column 1: duplicate key 'a'"),
    "duplicate key in json": ('{"a": 1,\n "a": 2}', "line 2, column 2: duplicate key 'a'"),
    "key that equals another": ("1: a\n1: b\n", "line 2, column 1: duplicate key 1"),
    "anchor": ("a: &x 1\n", "line 1, column 4: anchors"),
    "alias": ("a: 1\nb: *a\n", ""),
    "anchor on a list": ("a: &x [1]\nb: *x\n", "line 1, column 4: anchors"),
    "alias bomb": ("a: &a [x]\nb: &b [*a,*a]\nc: [*b,*b]", "line 1, column 4: anchors"),
    "tag": ("a: !!int '1'\n", "line 1, column 4: tags"),
    "tag of a list": ("a: !!set [1]\n", "line 1, column 4: tags"),
    "local tag": ("! a", "line 1, column 1: tags"),
    "object": ("!!python/object/apply:os.system [id]", "line 1, column 1: tags"),
    "two documents": ("a: 1\n---\na: 2\n", "line 2, column 1: a second document"),
    "document after an end": ("---\n...\n---\n...", "line 3, column 1: a second document"),
    "error after the first document": ("a: 1\n--- ]", ""),
    "list as key": ("? [a]\n: 1\n", "line 1, column 3: a key must be text"),
    "mapping as key": ("{{a: 1}: 2}", "a key must be text"),
    "not closed": ("[{name: gpu0}", ""),
    "bad indent": ("a: 1\n b: 2\n", "line 2, column 3: mapping values are not allowed"),
    "too deep": ("- " * (MAX_DEPTH + 1) + "x", f"line 1, column {2 * MAX_DEPTH + 1}: nested more than 20 levels"),
    "too deep in json": ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "line 1, column 21: nested more than 20"),
    "deeper than any stack": ("[" * 100_000, "nest"),
    "mappings deeper than any stack": ('{"a":' * 100_000, "line 1, column 101: nested more than 20"),
    "NaN": ('{"a": NaN}', "line 1, column 7: NaN is not a finite number"),
    "-Infinity": ("[-Infinity]", "line 1, column 2: -Infinity is not a finite number"),
    ".inf": ("a: -.inf", "line 1, column 4: -.inf is not a finite number"),
    ".nan": ("a: .NaN", "line 1, column 4: .NaN is not a finite number"),
    "number too large": ("[1e999]", "line 1, column 2: 1e999 is not a finite number"),
    "number too long": ("a: " + "9" * 5000, "line 1, column 4: 9999"),
    "number too long in json": ('{"a": ' + "9" * 5000 + "}", "line 1, column 7: 9999"),
    "half a character, escaped": ('["\\ud800"]', "line 1, column "),
    "half a character": ("a: \ud800", r"line 1, column 4: the character '\ud800' is not allowed"),
    "NUL": ("a: 1\nb: x\x00", r"line 2, column 5: the character '\x00' is not allowed"),
    "NUL in json": ('{"a": "\x00"}', r"line 1, column 8: the character '\x00'"),
    "escape sequence of a terminal": ("a: \x1b[31m", r"line 1, column 4: the character '\x1b'"),
}


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_refuses_in_one_line_that_names_the_place(text, message):
    with pytest.raises(ValueError) as refused:
        load(text)

    assert message in str(refused.value)
    assert str(refused.value).startswith("line ")
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 200


HOSTILE = [
    "[",
    "{",
    "? ",
    "- ",
    "[a,",
    "a: ",
    '{"a":1,',
    "[{a: [",
    "- |\n  a\n",
    '- [a, "b\n',
    "&a ",
    "*",
    "!",
    "%",
    "\n",
]


@pytest.mark.parametrize("unit", HOSTILE, ids=repr)
def test_a_hostile_text_of_the_largest_size_takes_less_than_a_second(unit):
    text = unit * (32 * 1024 // len(unit))

    start = time.process_time()
    with contextlib.suppress(ValueError):
        load(text)

    assert time.process_time() - start < 1
