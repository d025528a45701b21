"""JSON Patch over raw objects: operations, and pointers into them.

A patch that fails to apply fails the API request whatever the failurePolicy says, so missing parents are created and
nothing is replaced that was not looked at. Source: RFC 6902, RFC 6901; k8s.io/apiserver, mutating/dispatcher.go.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Operation = dict[str, Any]


def pointer(*tokens: str | int) -> str:
    """Return the JSON pointer to the value that `tokens` lead to. Source: RFC 6901, section 3."""
    return "".join(f"/{str(token).replace('~', '~0').replace('/', '~1')}" for token in tokens)


def add(value: Any, *tokens: str | int) -> Operation:
    """Return the operation that adds `value` as a member, or inserts it into a list (`-`: at its end)."""
    return {"op": "add", "path": pointer(*tokens), "value": value}


def replace(value: Any, *tokens: str | int) -> Operation:
    """Return the operation that replaces the value that `tokens` lead to."""
    return {"op": "replace", "path": pointer(*tokens), "value": value}


def remove(*tokens: str | int) -> Operation:
    """Return the operation that removes the value that `tokens` lead to."""
    return {"op": "remove", "path": pointer(*tokens)}


def put(item: Mapping[str, Any], members: Mapping[str, Any], *parent: str | int) -> list[Operation]:
    """Return the operations that set `members` in the mapping that `parent` leads to, made where it is missing."""
    if not members:
        return []
    if (missing := _missing(item, parent, dict)) is not None:
        return [_make(dict(members), parent, missing)]
    return [add(value, *parent, key) for key, value in members.items()]


def append(item: Mapping[str, Any], values: Sequence[Any], *parent: str | int) -> list[Operation]:
    """Return the operations that append `values` to the list that `parent` leads to, made where it is missing."""
    if not values:
        return []
    if (missing := _missing(item, parent, list)) is not None:
        return [_make(list(values), parent, missing)]
    return [add(value, *parent, "-") for value in values]


def prepend(item: Mapping[str, Any], value: Any, *parent: str | int) -> Operation:
    """Return the operation that puts `value` first into the list that `parent` leads to, made where it is missing."""
    if (missing := _missing(item, parent, list)) is not None:
        return _make([value], parent, missing)
    return add(value, *parent, 0)


def _missing(item: Any, parent: tuple[str | int, ...], kind: type) -> int | None:
    """Return how many tokens of `parent` lead to something that is there, None where all do.

    An empty mapping or list counts as missing: it is made anew in one operation, with the same result. What is of
    another kind does not: the patch then fails to apply, and the object, which is malformed, is refused.
    """
    for depth, token in enumerate(parent):
        try:
            item = item[token]
        except (KeyError, IndexError, TypeError):
            return depth
        if item is None:
            return depth
    return len(parent) - 1 if item == kind() else None


def _make(value: Any, parent: tuple[str | int, ...], missing: int) -> Operation:
    """Return the operation that adds the first missing parent with everything below it."""
    for token in reversed(parent[missing + 1 :]):
        value = {token: value}
    return add(value, *parent[: missing + 1])
