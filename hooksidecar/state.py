"""What was resolved, kept over a restart of the sidecar.

A sidecar that starts again beside a running VM must be ready within seconds, with the same devices, even if every
source is gone by then: a container that is not ready takes the VM out of its Services.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dra.device import Device, Source, read_devices
from dra.errors import Failed, Refused
from dra.fields import Fields
from dra.intent import Intent
from dra.reasons import Reason
from hooksidecar.files import read_file

_VERSION = 1
_LIMIT = 256 * 1024
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_WRONG = Reason.INVALID_STATE


class State:
    """The file in `folder` that holds the devices of one intent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "devices.json"

    def load(self, intent: Intent) -> tuple[Device, ...] | None:
        """Return the devices that were kept for `intent`, None where none were.

        Raises Refused where the file is broken or of another intent, Failed where it cannot be read.
        """
        text = read_file(self._file, within=self._folder, limit=_LIMIT)
        if text is None:
            return None
        path = str(self._file)
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Refused(_WRONG, f"is no JSON: {error}", path=path) from error
        fields = Fields.of(value, path, _WRONG)
        if fields.raw.get("version") != _VERSION or fields.raw.get("intent") != _digest(intent):
            raise Refused(_WRONG, "was written for another intent", path=path)
        devices = read_devices(fields.raw.get("devices"), path=f"{path}: devices")
        if [device.name for device in devices] != _names(intent):
            raise Refused(_WRONG, "holds other devices than the intent asks for", path=path)
        return tuple(replace(device, source=Source.STATE) for device in devices)

    def keep(self, intent: Intent, devices: Sequence[Device]) -> None:
        """Write the devices of `intent`, all or nothing. Raises Failed, with the old file untouched."""
        value = {"version": _VERSION, "intent": _digest(intent), "devices": [device.to_json() for device in devices]}
        new = self._file.with_suffix(".new")
        try:
            with os.fdopen(os.open(new, _WRITE, 0o600), "w") as file:
                json.dump(value, file)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._file)
            _sync(self._folder)
        except OSError as error:
            raise Failed(Reason.UNWRITABLE, f"{self._file}: {error.strerror}") from error


def _digest(intent: Intent) -> str:
    return hashlib.sha256(intent.to_json().encode()).hexdigest()


def _names(intent: Intent) -> list[str]:
    return [name for entry in intent.devices for name in entry.request.device_names]


def _sync(folder: Path) -> None:
    """Let the new name outlive a crash of the node."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
