"""What a stand-in driver publishes and how it prepares, as one JSON file that may change while it runs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Attributes = Mapping[str, Any]
"""Raw, as `{"name": {"string": "value"}}`. Source: k8s.io/api/resource/v1, DeviceAttribute."""


@dataclass(frozen=True, slots=True)
class DeviceSettings:
    """How one device is prepared."""

    environment: Mapping[str, str] = field(default_factory=dict)
    """What its CDI device sets in the containers."""
    attributes: Attributes = field(default_factory=dict)
    """What the metadata says beyond the slice."""
    status: Mapping[str, Any] | None = None
    """The `data` of the claim's `status.devices[]`, None: no entry."""
    shares: Sequence[Mapping[str, Any]] = ()
    """The `data` of its shares, where it is allocated in shares: one for each, in the order in which they come."""
    metadata: Sequence[str] | None = None
    """As of the driver, whose settings count where this is None."""
    written: str | None = None
    """Likewise."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A driver's settings."""

    driver: str
    slices: Sequence[Mapping[str, Any]]
    """Each `{"pool", "devices"}` or `{"pool", "sharedCounters"}`, otherwise as in ResourceSlice.spec."""
    devices: Mapping[str, DeviceSettings]
    metadata: Sequence[str] = ("v1beta1", "v1alpha1")
    """The versions in a metadata file, in their order; none: no file."""
    written: str = "whole"
    """How the metadata files are: `whole`, `empty` (not yet written) or `cut` (within its first object)."""
    root: str | None = None
    """The folder that containers get as DRAVIRT_ROOT: a host's `sys` and `dev`."""
    error: str | None = None
    """Why every claim fails to be prepared."""

    def attributes_of(self, pool: str, device: str) -> Attributes:
        """Return what a metadata file says of a device: the slice's attributes and those learnt when preparing."""
        published = (
            each.get("attributes", {})
            for piece in self.slices
            if piece["pool"] == pool
            for each in piece.get("devices", ())
            if each["name"] == device
        )
        return {**next(published, {}), **self.of(device).attributes}

    def metadata_of(self, device: str) -> Sequence[str]:
        """Return the versions in the metadata file of the request that yielded a device."""
        own = self.of(device).metadata
        return self.metadata if own is None else own

    def written_of(self, device: str) -> str:
        """Return how that file is."""
        return self.of(device).written or self.written

    def of(self, device: str) -> DeviceSettings:
        """Return the settings of a device, the default ones where it has none."""
        return self.devices.get(device, DeviceSettings())


def parse_settings(text: str) -> Settings:
    """Return the settings that a file holds."""
    raw = json.loads(text)
    devices = {name: DeviceSettings(**value) for name, value in raw.pop("devices", {}).items()}
    return Settings(devices=devices, **raw)


def write_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """Write settings so that a reader never sees half of them."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(settings))
    unfinished.rename(path)


def in_use(path: Path) -> Path:
    """Return the path of the copy that a driver makes of its settings at `path` once it goes by them."""
    return path.with_suffix(".in-use")
