"""Strict reading of raw objects: every field by name and type, every error with the path of the field.

Annotations, intents, device lists and configuration files all come in as parsed YAML or JSON. Reading them through one
small reader gives all of them the same errors.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from dra.errors import Refused
from dra.reasons import Reason

_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a number with a fraction",
    str: "text",
    list: "a list",
    dict: "a mapping",
    type(None): "null",
}
# What stands in a path as it is: field names, driver names, indices. Anything else is quoted.
_PLAIN_NAME = re.compile(r"\w[-./\w\[\]]{0,252}", re.ASCII)
# Larger numbers are described: Python raises ValueError rather than spell out 4300 digits, and YAML's 0x... holds any.
_SPELT_BITS = 64


def kind_of(value: object) -> str:
    """Return what a person calls the type of a YAML or JSON value."""
    return _KINDS.get(type(value), type(value).__name__)


def shown(value: object) -> str:
    """Return `value` as an error may show it: its kind and, of a text, number or truth value, the first 80 characters.

    What lists and mappings hold stays out: it may nest deeper than `repr` can follow. Text is shown in ASCII, so that
    look-alikes of other alphabets stand out.
    """
    if isinstance(value, str):
        return f"{kind_of(value)}: {value[:80]!a}"
    if isinstance(value, int):
        return f"{kind_of(value)}: {_number(value)}"
    return f"{kind_of(value)}: {value}" if isinstance(value, float) else kind_of(value)


def _number(value: int) -> str:
    return str(value) if value.bit_length() <= _SPELT_BITS else f"a number of {value.bit_length()} bits"


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one mapping at `path`; what is wrong with one is refused for `reason`."""

    raw: Mapping[str, Any]
    path: str
    reason: Reason

    @classmethod
    def of(cls, value: object, path: str, reason: Reason) -> Self:
        """Return the fields of `value`, which must be a mapping with text keys."""
        if not isinstance(value, dict):
            raise Refused(reason, f"must be a mapping of fields, got {kind_of(value)}", path=path)
        for key in value:
            if not isinstance(key, str):
                raise Refused(reason, f"field names must be text, got {shown(key)}", path=path)
        return cls(value, path, reason)

    def at(self, name: str) -> str:
        """Return the path of the field `name`, quoted where it is no plain name."""
        plain = name if _PLAIN_NAME.fullmatch(name) else ascii(name[:80])
        return f"{self.path}.{plain}" if self.path else plain

    def refuse(self, name: str, message: str) -> Refused:
        """Return the error that refuses the field `name`, to be raised."""
        return Refused(self.reason, message, path=self.at(name))

    def unknown(self, known: Iterable[str]) -> list[str]:
        """Return a sentence for each field that is not `known`, with the nearest known name."""
        return [f"{self.at(name)}: {_unknown(name, list(known))}" for name in self.raw if name not in known]

    def only(self, known: Iterable[str]) -> None:
        """Refuse a field that is not `known`."""
        for name in self.raw:
            if name not in known:
                raise self.refuse(name, _unknown(name, list(known)))

    def text(self, name: str) -> str:
        """Return a text that must be there."""
        value = self.optional_text(name)
        if value is None:
            raise self.refuse(name, "is required")
        return value

    def optional_text(self, name: str) -> str | None:
        """Return a text, or None where the field is absent or null."""
        value = self.raw.get(name)
        if value is None or isinstance(value, str):
            return value
        remedy = "" if isinstance(value, list | dict) else ": put it in quotes"
        raise self.refuse(name, f"must be text, got {shown(value)}{remedy}")

    def optional_boolean(self, name: str) -> bool | None:
        """Return true or false, or None where the field is absent or null."""
        value = self.raw.get(name)
        if value is None or isinstance(value, bool):
            return value
        raise self.refuse(name, f"must be true or false, got {shown(value)}")

    def integer(self, name: str, default: int, *, low: int, high: int) -> int:
        """Return a whole number between `low` and `high`, or `default` where the field is absent or null."""
        value = self.raw.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.refuse(name, f"must be an integer, got {shown(value)}")
        if not low <= value <= high:
            raise self.refuse(name, f"must be between {low} and {high}, got {_number(value)}")
        return value

    def optional_choice(self, name: str, choices: Iterable[str]) -> str | None:
        """Return one of `choices`, or None where the field is absent or null."""
        value = self.optional_text(name)
        if value is not None and value not in choices:
            raise self.refuse(name, f"must be one of {', '.join(choices)}; got {value[:80]!a}")
        return value

    def items(self, name: str) -> list[Any]:
        """Return a list, empty where the field is absent or null."""
        value = self.raw.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.refuse(name, f"must be a list, got {kind_of(value)}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts, empty where the field is absent or null."""
        values = self.items(name)
        for index, value in enumerate(values):
            if not isinstance(value, str):
                raise self.refuse(f"{name}[{index}]", f"must be text, got {kind_of(value)}")
        return tuple(values)

    def mapping(self, name: str) -> "Fields":
        """Return the fields of a mapping, empty where the field is absent or null."""
        value = self.raw.get(name)
        return Fields.of({} if value is None else value, self.at(name), self.reason)


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name[:80], known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
    return f"is not a known field: {hint}"
