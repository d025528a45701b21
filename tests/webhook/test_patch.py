"""JSON Patch: each operation list applies strictly, makes the parents that are missing, and keeps what is there."""

import copy

import jsonpatch
import pytest

from webhook.patch import Ground, Patch, add, pointer, remove, replace


def put(item: dict, members: dict, *parent: str | int) -> list:
    return Ground.of(item, [parent]).put(members, *parent)


def append(item: dict, values: list, *parent: str | int) -> list:
    return Ground.of(item, [parent]).append(values, *parent)


def prepend(item: dict, value: object, *parent: str | int) -> list:
    return Ground.of(item, [parent]).prepend(value, *parent)


def applied(item: dict, operations: list) -> dict:
    return jsonpatch.JsonPatch(operations).apply(copy.deepcopy(item))


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ((), ""),
        (("spec", "containers", 0), "/spec/containers/0"),
        (("a", "-"), "/a/-"),
        (("dravirt.io/devices",), "/dravirt.io~1devices"),
        (("a~b/c",), "/a~0b~1c"),
        (("~1",), "/~01"),
        (("",), "/"),
    ],
)
def test_pointer_escapes_its_tokens(tokens: tuple, text: str):
    assert pointer(tokens) == text


def test_wh09_annotation_with_a_slash_is_added_and_the_others_stay():
    item = {"metadata": {"annotations": {"example.org/x": "1", "a~b": "2"}}}
    operations = put(item, {"example.org/y": "3"}, "metadata", "annotations")
    assert operations == [{"op": "add", "path": "/metadata/annotations/example.org~1y", "value": "3"}]
    assert applied(item, operations) == {
        "metadata": {"annotations": {"example.org/x": "1", "a~b": "2", "example.org/y": "3"}}
    }


PARENTS = {
    "all missing": {},
    "first null": {"metadata": None},
    "second missing": {"metadata": {"name": "a"}},
    "second null": {"metadata": {"annotations": None}},
    "second empty": {"metadata": {"annotations": {}}},
    "second there": {"metadata": {"annotations": {"a": "b"}}},
}


@pytest.mark.parametrize("item", PARENTS.values(), ids=PARENTS)
def test_members_are_set_whatever_parents_are_missing(item: dict):
    operations = put(item, {"x/y": "1", "z": "2"}, "metadata", "annotations")
    result = applied(item, operations)
    there = (item.get("metadata") or {}).get("annotations") or {}
    assert result["metadata"]["annotations"] == {**there, "x/y": "1", "z": "2"}
    assert {**result["metadata"], "annotations": there} == {**(item.get("metadata") or {}), "annotations": there}


LISTS = {
    "all missing": {},
    "parent null": {"spec": None},
    "missing": {"spec": {"x": 1}},
    "null": {"spec": {"volumes": None}},
    "empty": {"spec": {"volumes": []}},
    "there": {"spec": {"volumes": [{"name": "a"}, {"name": "b"}]}},
}


@pytest.mark.parametrize("item", LISTS.values(), ids=LISTS)
def test_values_are_appended_in_order_whatever_parents_are_missing(item: dict):
    result = applied(item, append(item, [1, 2], "spec", "volumes"))
    there = (item.get("spec") or {}).get("volumes") or []
    assert result["spec"]["volumes"] == [*there, 1, 2]


@pytest.mark.parametrize("item", LISTS.values(), ids=LISTS)
def test_value_is_put_first_whatever_parents_are_missing(item: dict):
    result = applied(item, prepend(item, 1, "spec", "volumes"))
    there = (item.get("spec") or {}).get("volumes") or []
    assert result["spec"]["volumes"] == [1, *there]


def test_parents_inside_lists_are_made():
    item = {"containers": [{}, {"name": "compute"}]}
    result = applied(item, append(item, ["x"], "containers", 1, "resources", "claims"))
    assert result == {"containers": [{}, {"name": "compute", "resources": {"claims": ["x"]}}]}


def test_nothing_to_add_is_no_operation():
    assert append({}, [], "spec", "volumes") == []
    assert not Patch.of([])
    assert list(Patch.of([])) == []


def test_patch_gives_its_operations_anew_each_time():
    patch = Patch.of([add({"a": 1}, "x"), remove("y")])
    next(iter(patch))["value"]["a"] = 2
    assert list(patch) == [{"op": "add", "path": "/x", "value": {"a": 1}}, {"op": "remove", "path": "/y"}]
    assert len(patch) == 2
    assert patch


def test_single_operations_are_those_of_the_rfc():
    assert add(1, "a", 0) == {"op": "add", "path": "/a/0", "value": 1}
    assert replace(None, "a") == {"op": "replace", "path": "/a", "value": None}
    assert remove("a", "b/c") == {"op": "remove", "path": "/a/b~1c"}


def test_values_of_the_caller_are_not_shared_with_the_operations():
    values = [{"name": "a"}]
    [operation] = append({}, values, "claims")
    values.append({"name": "b"})
    assert operation["value"] == [{"name": "a"}]


@pytest.mark.parametrize(
    "item", [{"spec": "x"}, {"spec": ["x"]}, {"spec": {"volumes": "x"}}, {"spec": {"volumes": 0}}], ids=str
)
def test_malformed_parent_is_never_replaced(item: dict):
    """Kubernetes refuses such an object, and refuses it here already: the patch does not apply."""
    for operations in (append(item, [1], "spec", "volumes"), prepend(item, 1, "spec", "volumes")):
        with pytest.raises((jsonpatch.JsonPatchException, jsonpatch.JsonPointerException)):
            applied(item, operations)
