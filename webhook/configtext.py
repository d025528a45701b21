"""The YAML of a configuration: one file, or the files of a folder together.

A folder is what the parts of an installation put together: each adds a file to a ConfigMap, and none needs to know what
the others say.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dra.errors import Failed, Refused
from dra.reasons import Reason
from webhook.yamltext import load

Signature = tuple[int, ...]


def read(path: Path) -> Any:
    """Return the value of the file at `path`, or the keys of all files `*.yaml` in the folder at `path`.

    Raises Failed where it cannot be read, Refused where it is not YAML or two files of a folder have one key.
    """
    if not path.is_dir():
        return parse(_text(path), path=str(path))
    return together({str(file): _text(file) for file in _files(path)})


def together(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the keys of all files of a folder, given as text by path. Raises Refused as `read` does."""
    keys: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for path, text in texts.items():
        value = parse(text, path=path)
        if not isinstance(value, Mapping):
            raise Refused(Reason.INVALID_CONFIGURATION, "must be a mapping", path=path)
        for key in value:
            if key in origin:
                message = f"{key}: stands in {Path(origin[key]).name} as well: a folder has each key once"
                raise Refused(Reason.INVALID_CONFIGURATION, message, path=path)
            origin[key] = path
        keys |= value
    return keys


def parse(text: str, *, path: str) -> Any:
    """Return the value of YAML text, an empty mapping where there is none. Raises Refused."""
    try:
        value = load(text)
    except ValueError as error:
        raise Refused(Reason.INVALID_CONFIGURATION, f"is not YAML: {error}", path=path) from error
    return {} if value is None else value


def signature(path: Path | None) -> Signature | None:
    """Return what changes with the file or folder, also where a `..data` link is swapped; None where there is none."""
    if path is None:
        return None
    try:
        return sum((_status(each) for each in (path, *_files(path))), ())
    except OSError:
        return None


def _files(path: Path) -> list[Path]:
    return sorted(path.glob("*.yaml")) if path.is_dir() else []


def _status(path: Path) -> Signature:
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise Failed(Reason.UNREADABLE, f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Failed(Reason.UNREADABLE, f"{path}: is not UTF-8: {error}") from error
