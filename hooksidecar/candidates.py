"""Candidates: what is asked of a source of devices, and what it may answer.

A source knows which devices were allocated, or says why it does not. It decides nothing: that is the resolver's. The
driver's metadata files and the container's environment are sources; whatever else comes to know allocated devices (the
API, by way of a service) becomes one by the same protocol.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from dra.allocation import AllocatedDevice
from dra.device import Source
from dra.errors import DravirtError
from dra.identity import Identity
from dra.intent import ClaimedRequest
from dra.names import base_request


@dataclass(frozen=True, slots=True)
class Wanted:
    """An entry of the intent whose devices are looked for."""

    entry: ClaimedRequest
    allocated: tuple[AllocatedDevice, ...] = ()
    """Its devices as an earlier source named them, without an identity."""

    def takes(self, request: str) -> bool:
        """True if a device that was allocated for `request` is one of the entry's.

        An entry for `gpu` takes what `gpu/large` yields, an entry for `gpu/large` nothing else. The prefix alone says
        nothing: `gpu2` is another request.
        """
        wanted = self.entry.request.request
        return wanted is None or wanted in (request, base_request(request))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device that a source names: as allocated, by its identity on the node, or both."""

    allocated: AllocatedDevice | None = None
    identity: Identity | None = None


Answer = tuple[Candidate, ...] | DravirtError
"""What a source says about an entry: all of its devices, or why it does not know them."""


class DeviceSource(Protocol):
    """Something that may know which devices were allocated."""

    @property
    def name(self) -> Source:
        """What the device's `source` says."""

    def find(self, wanted: Sequence[Wanted], taken: Collection[Identity]) -> Sequence[Answer]:
        """Return an answer for each entry of `wanted`, in their order; `taken` are the devices of the other entries."""
