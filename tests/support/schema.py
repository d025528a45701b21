"""A strict check of an object's fields: every field by name and type, as the API server's strict decoding does it."""

from collections.abc import Mapping, Sequence
from typing import Any


class Anything:
    """Takes whatever stands there: fields of another API."""


Schema = type | Mapping[str, Any] | Sequence[Any]
"""A type; a mapping of field names to schemas, `*` for any name, `name!` for a required one; a list of one schema."""


def misfits(value: object, schema: Schema, path: str = "") -> list[str]:
    """Return a sentence for each field that does not fit."""
    if schema is Anything:
        return []
    if isinstance(schema, Mapping):
        return _fields(value, schema, path)
    if isinstance(schema, Sequence):
        if not isinstance(value, list):
            return [f"{path} is no list"]
        return [line for index, item in enumerate(value) for line in misfits(item, schema[0], f"{path}[{index}]")]
    return [] if type(value) is schema else [f"{path} is {value!r}, no {schema.__name__}"]


def _fields(value: object, schema: Mapping[str, Any], path: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{path} is no mapping"]
    known = {name.removesuffix("!"): field for name, field in schema.items()}
    lines = [f"{path}.{name} is missing" for name in _required(schema) if name not in value]
    for name, item in value.items():
        if name in known or "*" in known:
            lines += misfits(item, known.get(name, known.get("*")), f"{path}.{name}")
        else:
            lines.append(f"{path}.{name} is no field")
    return lines


def _required(schema: Mapping[str, Any]) -> list[str]:
    return [name.removesuffix("!") for name in schema if name.endswith("!")]
