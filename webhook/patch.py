"""JSON Patch over raw objects: operations, pointers, and what of an object is there to add to.

A patch that fails to apply fails the API request whatever the failurePolicy says, so missing parents are created and
nothing is replaced that was not looked at. Source: RFC 6902, RFC 6901; k8s.io/apiserver, mutating/dispatcher.go.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import orjson
from msgspec import Struct

Operation = dict[str, Any]
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON Patch, kept as its text: unlike a list of operations it can be shared without a copy."""

    text: bytes = b"[]"

    @classmethod
    def of(cls, operations: Sequence[Operation]) -> Self:
        """Return the patch that consists of `operations`."""
        return cls(orjson.dumps(operations))

    def __iter__(self) -> Iterator[Operation]:
        """Yield its operations, made anew each time."""
        return iter(orjson.loads(self.text))

    def __len__(self) -> int:
        return len(orjson.loads(self.text)) if self else 0

    def __bool__(self) -> bool:
        return self.text != b"[]"


def pointer(path: Path) -> str:
    """Return the JSON pointer for `path`. Source: RFC 6901, section 3."""
    return "".join(f"/{str(token).replace('~', '~0').replace('/', '~1')}" for token in path)


def add(value: Any, *path: str | int) -> Operation:
    """Return the operation that adds `value` as a member, or inserts it into a list (`-`: at its end)."""
    return {"op": "add", "path": pointer(path), "value": value}


def replace(value: Any, *path: str | int) -> Operation:
    """Return the operation that replaces the value at `path`."""
    return {"op": "replace", "path": pointer(path), "value": value}


def remove(*path: str | int) -> Operation:
    """Return the operation that removes the value at `path`."""
    return {"op": "remove", "path": pointer(path)}


class Ground(Struct, frozen=True):
    """Which of the parents that a patch adds to are missing in an object, and how far each of these is there.

    An empty mapping or list counts as missing: it is made anew in one operation, with the same result. What is of
    another kind does not: the patch then fails to apply, and the object, which is malformed, is refused.
    """

    missing: tuple[tuple[Path, int], ...]
    """Each path with the number of its tokens that lead to something."""

    @classmethod
    def of(cls, item: Mapping[str, Any], parents: Iterable[Path]) -> Self:
        """Return the ground that `item` gives for adding to `parents`."""
        depths = [(parent, _depth(item, parent)) for parent in parents]
        return cls(tuple([(parent, depth) for parent, depth in depths if depth < len(parent)]))

    def put(self, members: Mapping[str, Any], *parent: str | int) -> list[Operation]:
        """Return the operations that set `members` in the mapping at `parent`."""
        if (depth := self._depth(parent)) is not None:
            return [_make(dict(members), parent, depth)]
        return [add(value, *parent, key) for key, value in members.items()]

    def append(self, values: Sequence[Any], *parent: str | int) -> list[Operation]:
        """Return the operations that append `values` to the list at `parent`."""
        if not values:
            return []
        if (depth := self._depth(parent)) is not None:
            return [_make(list(values), parent, depth)]
        return [add(value, *parent, "-") for value in values]

    def prepend(self, value: Any, *parent: str | int) -> list[Operation]:
        """Return the operation that puts `value` first into the list at `parent`."""
        if (depth := self._depth(parent)) is not None:
            return [_make([value], parent, depth)]
        return [add(value, *parent, 0)]

    def _depth(self, parent: Path) -> int | None:
        return next((depth for path, depth in self.missing if path == parent), None)


def _depth(item: Any, parent: Path) -> int:
    for depth, token in enumerate(parent):
        if isinstance(item, dict):
            item = item.get(token)
        elif isinstance(item, list) and isinstance(token, int) and token < len(item):
            item = item[token]
        else:
            return depth
        if item is None:
            return depth
    return len(parent) if item or item not in ([], {}) else len(parent) - 1


def _make(value: Any, parent: Path, depth: int) -> Operation:
    """Return the operation that adds the first missing parent with everything below it."""
    for token in reversed(parent[depth + 1 :]):
        value = {token: value}
    return add(value, *parent[: depth + 1])
