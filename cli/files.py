"""Files that a command reads, `-` for stdin."""

import json
import sys
from pathlib import Path
from typing import Any

from dra.errors import Failed, Refused
from dra.reasons import Reason

_MAX_FILE = 16 * 1024 * 1024


def read_bytes(name: str) -> bytes:
    """Return what the file `name`, or stdin for `-`, holds. Raises Failed where it cannot be read."""
    try:
        data = sys.stdin.buffer.read(_MAX_FILE + 1) if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise Failed(Reason.UNREADABLE, f"{name}: {error.strerror}: name a file that can be read") from error
    if len(data) > _MAX_FILE:
        raise Refused(Reason.UNREADABLE, f"is larger than {_MAX_FILE} bytes", path=name)
    return data


def read_json(name: str) -> Any:
    """Return the JSON value in the file `name`. Raises Refused where it is none."""
    try:
        return json.loads(read_bytes(name))
    except (ValueError, RecursionError) as error:
        raise Refused(Reason.UNREADABLE, f"is no JSON: {error}", path=name) from error
