"""JSON Patch over raw objects: operations, and pointers into them.

A patch that fails to apply fails the API request whatever the failurePolicy says, so missing parents are created and
nothing is replaced that was not looked at. Source: RFC 6902, RFC 6901; k8s.io/apiserver, mutating/dispatcher.go.
"""

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
