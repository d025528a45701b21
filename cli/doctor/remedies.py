"""Command lines that mend something, to be pasted into a shell."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

Operation = dict[str, Any]


def kubectl(*words: str, namespace: str = "") -> str:
    """Return a kubectl command line."""
    where = ("-n", namespace) if namespace else ()
    return shlex.join(("kubectl", *where, *words))


def patch(resource: str, name: str, operations: Sequence[Mapping[str, Any]], namespace: str = "") -> str:
    """Return the command that changes an object by a JSON Patch."""
    return kubectl("patch", resource, name, "--type=json", "-p", _compact(operations), namespace=namespace)


def merge(resource: str, name: str, changes: Mapping[str, Any], namespace: str = "") -> str:
    """Return the command that changes an object by a merge patch."""
    return kubectl("patch", resource, name, "--type=merge", "-p", _compact(changes), namespace=namespace)


def apply(*items: Mapping[str, Any]) -> str:
    """Return the command that applies objects."""
    whole = items[0] if len(items) == 1 else {"apiVersion": "v1", "kind": "List", "items": items}
    return f"printf %s {shlex.quote(_compact(whole))} | kubectl apply -f -"


def restart(deployment: str, namespace: str) -> str:
    """Return the command that restarts a Deployment and waits until it is up."""
    return " && ".join(
        kubectl("rollout", action, f"deployment/{deployment}", namespace=namespace) for action in ("restart", "status")
    )


def put(item: Mapping[str, Any], path: Sequence[str], value: Any, *, append: bool = False) -> list[Operation]:
    """Return the JSON Patch that puts `value` at `path` of the object, or appends it to the list there.

    Parents that are missing are made, and those that are there stay as they are.
    """
    here: Any = item
    for depth, name in enumerate(path):
        inner = here.get(name)
        if inner is None or (not append and depth == len(path) - 1):
            for missing in reversed(path[depth + 1 :]):
                value = {missing: [value]} if append and missing is path[-1] else {missing: value}
            if append and depth == len(path) - 1:
                value = [value]
            return [{"op": "add", "path": pointer(*path[: depth + 1]), "value": value}]
        here = inner
    return [{"op": "add", "path": pointer(*path, "-"), "value": value}]


def pointer(*path: str | int) -> str:
    """Return the JSON Pointer of a path."""
    return "".join("/" + str(name).replace("~", "~0").replace("/", "~1") for name in path)


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
