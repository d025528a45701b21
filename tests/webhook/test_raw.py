"""Raw objects of every shape: what is malformed reads as empty, and positions hold."""

import pytest

from webhook import raw


@pytest.mark.parametrize("value", [None, 1, "text", [], [{}], True], ids=repr)
def test_what_is_no_mapping_reads_as_an_empty_one(value: object):
    assert raw.mapping({"spec": value}, "spec") == {}
    assert raw.mapping({"spec": value}, "spec", "template") == {}
    assert raw.mappings({"spec": value}, "spec", "volumes") == []


def test_mapping_at_a_path_is_found():
    assert raw.mapping({"a": {"b": {"c": 1}}}, "a", "b") == {"c": 1}
    assert raw.mapping({"a": 1}) == {"a": 1}


@pytest.mark.parametrize("value", [None, 1, "text", {}], ids=repr)
def test_what_is_no_list_reads_as_an_empty_one(value: object):
    assert raw.mappings({"items": value}, "items") == []


def test_positions_hold_beside_malformed_items():
    assert raw.mappings({"items": [None, {"name": "a"}, "b", 3]}, "items") == [{}, {"name": "a"}, {}, {}]


def test_first_item_of_a_name_is_found():
    items = [{}, {"name": ["a"]}, {"name": "a", "n": 1}, {"name": "a", "n": 2}]
    assert raw.named(items, "a") == 2
    assert raw.named(items, "b") is None


@pytest.mark.parametrize(("item", "name"), [({}, ""), ({"name": "a"}, "a"), ({"name": ["a"]}, ""), ({"name": 1}, "")])
def test_name_is_text(item: dict, name: str):
    assert raw.name_of(item) == name


def test_annotations_and_labels_are_those_of_the_metadata():
    item = {"metadata": {"annotations": {"a": "b"}, "labels": {"c": "d"}}}
    assert raw.annotations(item) == {"a": "b"}
    assert raw.labels(item) == {"c": "d"}
    assert raw.annotations({}) == raw.labels({"metadata": None}) == {}
