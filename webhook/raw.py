"""Looking into raw Kubernetes objects, whatever shape a hostile sender gave them.

A webhook sees an object before the API server has validated all of it, so a field may be missing, null or of another
type. These readers answer with an empty value then: what is malformed is for the API server to refuse.
"""

from collections.abc import Mapping
from typing import Any

_NOTHING: Mapping[str, Any] = {}
_ONLY_MAPPINGS = {dict}


def mapping(item: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """Return the mapping at `path`, empty where there is none."""
    for key in path:
        value = item.get(key)
        if not isinstance(value, dict):
            return _NOTHING
        item = value
    return item


def mappings(item: Mapping[str, Any], *path: str) -> list[Mapping[str, Any]]:
    """Return the list at `path` with an empty mapping for each item that is none, so that positions hold."""
    value: Any = item
    for key in path:
        if not isinstance(value, dict):
            return []
        value = value.get(key)
    if not isinstance(value, list):
        return []
    if _ONLY_MAPPINGS.issuperset(map(type, value)):
        return value
    return [entry if isinstance(entry, dict) else _NOTHING for entry in value]


def annotations(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the object's annotations: text, but in a VM's template, whose schema lets every type through."""
    return mapping(item, "metadata", "annotations")


def labels(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the object's labels."""
    return mapping(item, "metadata", "labels")


def name_of(item: Mapping[str, Any]) -> str:
    """Return the item's name, "" where it has none that is text."""
    name = item.get("name")
    return name if isinstance(name, str) else ""


def named(items: list[Mapping[str, Any]], name: str) -> int | None:
    """Return the position of the item called `name`, None where there is none."""
    for index, entry in enumerate(items):
        if entry.get("name") == name:
            return index
    return None
