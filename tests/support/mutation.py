"""Objects mutated as Kubernetes lets them vary, and objects of any shape at all, for property tests."""

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

_WORDS = st.sampled_from(
    ["", "x", "compute", "dravirt-hook", "dravirt-gpu0", "hook-sidecar-sockets", "--hook-sidecars", "1"]
)
_KEYS = [
    "metadata",
    "annotations",
    "labels",
    "spec",
    "template",
    "domain",
    "devices",
    "name",
    "status",
    "dravirt.io/devices",
]

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | _WORDS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS) | st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
"""Any JSON value."""


@st.composite
def reshaped(draw: st.DrawFn, base: dict[str, Any]) -> dict[str, Any]:
    """Return `base` with a few changes that keep every field's type, so that an API server could send the result."""
    item = copy.deepcopy(base)
    for _ in range(draw(st.integers(0, 4))):
        parent, key = draw(st.sampled_from(list(_places(item))))
        _reshape(draw, parent, key)
    return item


@st.composite
def broken(draw: st.DrawFn, base: dict[str, Any]) -> dict[str, Any]:
    """Return `base` with one to three values replaced by anything."""
    item = copy.deepcopy(base)
    for _ in range(draw(st.integers(1, 3))):
        parent, key = draw(st.sampled_from(list(_places(item))))
        parent[key] = draw(anything)
    return item


def _places(item: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each (parent, key) in `item` that holds a value."""
    keys = item if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else ()
    for key in keys:
        yield item, key
        yield from _places(item[key])


def _reshape(draw: st.DrawFn, parent: Any, key: Any) -> None:
    value = parent[key]
    if isinstance(parent, dict) and draw(st.booleans()):
        if draw(st.booleans()):
            del parent[key]
        else:
            parent[key] = None
    elif isinstance(value, list):
        more = [copy.deepcopy(draw(st.sampled_from(value)))] if value else []
        parent[key] = draw(st.permutations(value + more)) if draw(st.booleans()) else []
    elif isinstance(value, dict):
        parent[key] = dict(draw(st.permutations(list(value.items()))))
    elif isinstance(value, str):
        parent[key] = draw(_WORDS)
