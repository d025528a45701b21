"""YAML text read strictly: the annotation of a VM owner and the configuration file of an administrator.

Scalars are those of YAML 1.2's core schema less its surprises: `no`, `on` and `2024-01-01` are text, so are `010`,
`0x1F` and `12:30:45`, which YAML 1.1 takes for numbers. What lets a text stand for another or a far larger value is
refused: anchors, aliases, tags, several documents, duplicate keys, deep nesting. JSON is YAML.
Source: YAML 1.2.2, section 10.3.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

import yaml

MAX_DEPTH = 20
"""Mappings and lists within each other: a configuration file needs six."""

_CONSTANTS = {"": None, "~": None, "null": None, "Null": None, "NULL": None} | {
    text: text.lower() == "true" for text in ("true", "True", "TRUE", "false", "False", "FALSE")
}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"NaN|-?Infinity|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_UNPRINTABLE = re.compile("[^\\t\\n\\r\\x20-\\x7e\\x85\\xa0-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")

# libyaml where PyYAML was built with it: ten times as fast, the same events.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Place(NamedTuple):
    """Where in the text, counted from 0: what is used of the marks of PyYAML, which has two types of them."""

    line: int
    column: int


def load(text: str) -> object:
    """Return the value of the YAML or JSON document `text`: None, a boolean, number, text, list or dict.

    Raises ValueError with line and column, in one line.
    """
    if wrong := _UNPRINTABLE.search(text):
        line_start = text.rfind("\n", 0, wrong.start()) + 1
        line, column = text.count("\n", 0, line_start), wrong.start() - line_start
        _refuse(_Place(line, column), f"the character {wrong[0]!r} is not allowed")
    if text.lstrip()[:1] in ("[", "{"):
        try:
            return _json(text)
        except (ValueError, RecursionError):
            # Not JSON, or JSON that is refused: YAML reads the one and says where the other is wrong.
            # Tabs between tokens, which JSON allows, would stop libyaml first.
            text = text.replace("\t", " ")
    try:
        return _document(yaml.parse(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        _refuse(error.problem_mark or error.context_mark, error.problem or error.context or "is not YAML")


def _json(text: str) -> object:
    value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number, parse_float=_finite)
    _check(value, MAX_DEPTH)
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("duplicate key")
    return value


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a finite number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        _no_number(text)
    return value


def _check(value: object, depth: int) -> None:
    """Refuse what the JSON parser lets pass: deep nesting, and escapes that are half a character."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        if not depth:
            raise ValueError("nested too deeply")
        for item in value:
            _check(item, depth - 1)
    elif isinstance(value, str) and _SURROGATE.search(value):
        raise ValueError("half a character")


def _document(events: Iterator[yaml.Event]) -> object:
    """Return the value of the only document in the stream."""
    value: object = None
    documents = 0
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                _refuse(event.start_mark, "a second document starts here, there must be one only")
            value = _node(events, next(events), MAX_DEPTH)
    return value


def _node(events: Iterator[yaml.Event], event: yaml.Event, depth: int) -> object:
    """Return the value of the node that starts with `event`, taking the events that belong to it."""
    if not isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) or event.anchor is not None:
        _refuse(event.start_mark, "anchors (&) and aliases (*) are not allowed, use quotes or write it out")
    if event.tag is not None:
        _refuse(event.start_mark, "tags (!) are not allowed, use quotes")
    if isinstance(event, yaml.ScalarEvent):
        return _scalar(event)
    if not depth:
        _refuse(event.start_mark, f"nested more than {MAX_DEPTH} levels deep")
    if isinstance(event, yaml.SequenceStartEvent):
        return _list(events, depth - 1)
    return _mapping(events, depth - 1)


def _list(events: Iterator[yaml.Event], depth: int) -> list[object]:
    values = []
    while not isinstance(event := next(events), yaml.SequenceEndEvent):
        values.append(_node(events, event, depth))
    return values


def _mapping(events: Iterator[yaml.Event], depth: int) -> dict[object, object]:
    values: dict[object, object] = {}
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        key = _node(events, event, depth)
        if isinstance(key, list | dict):
            _refuse(event.start_mark, "a key must be text, got a list or a mapping")
        if key in values:
            _refuse(event.start_mark, f"duplicate key {key!r:.80}")
        values[key] = _node(events, next(events), depth)
    return values


def _scalar(event: yaml.ScalarEvent) -> object:
    text: str = event.value
    if _SURROGATE.search(text):
        _refuse(event.start_mark, "an escape (\\u) that is half a character")
    if event.style:  # in quotes, or a block
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    try:
        if _INTEGER.fullmatch(text):
            return int(text)
        if _NOT_FINITE.fullmatch(text):
            _no_number(text)
        return _finite(text) if _FLOAT.fullmatch(text) else text
    except ValueError:
        _refuse(event.start_mark, f"{text:.40} is not a finite number, or has far too many digits")


def _refuse(mark: Any, message: str) -> NoReturn:
    """Refuse what stands at `mark`: a _Place, a mark of PyYAML, or None."""
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    raise ValueError(" ".join(f"{place}{message}".split()))
