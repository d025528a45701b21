"""The sources of devices, in the order in which they are asked."""

from collections.abc import Mapping
from pathlib import Path

from dra.intent import Intent
from hooksidecar.candidates import DeviceSource
from hooksidecar.environment import Environment
from hooksidecar.metadatafiles import MetadataFiles
from hooksidecar.service import AllocationService


def device_sources(intent: Intent, *, metadata_dir: Path, environ: Mapping[str, str]) -> tuple[DeviceSource, ...]:
    """Return the sources that may know the devices of `intent`."""
    sources: list[DeviceSource] = [MetadataFiles(metadata_dir), Environment(environ, intent.environment)]
    if intent.service is not None:
        sources.append(AllocationService(intent.service))
    return tuple(sources)
