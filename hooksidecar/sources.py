"""The sources of devices, in the order in which they are asked."""

from collections.abc import Mapping
from pathlib import Path

from dra.intent import Intent
from hooksidecar.candidates import DeviceSource
from hooksidecar.environment import Environment
from hooksidecar.metadatafiles import MetadataFiles


def device_sources(intent: Intent, *, metadata_dir: Path, environ: Mapping[str, str]) -> tuple[DeviceSource, ...]:
    """Return the sources that may know the devices of `intent`."""
    sources: list[DeviceSource] = [MetadataFiles(metadata_dir), Environment(environ, intent.environment)]
    if intent.service is not None:
        from hooksidecar.service import AllocationService  # noqa: PLC0415 (memory beside every VM, where there is none)

        sources.append(AllocationService(intent.service))
    return tuple(sources)
