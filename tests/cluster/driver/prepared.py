"""What the plugin and a driver's devices agree on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class CannotPrepare(Exception):
    """Why a claim cannot be prepared: the kubelet shows it in an event and tries again."""


@dataclass(frozen=True, slots=True)
class Claim:
    """An allocated claim and this driver's part of its allocation."""

    uid: str
    name: str
    namespace: str
    annotations: dict[str, str]
    results: tuple[dict[str, Any], ...]
    """Source: k8s.io/api/resource/v1, DeviceRequestAllocationResult."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A device that is ready for the containers that use its request."""

    request: str
    pool: str
    device: str
    share_id: str | None
    cdi_ids: tuple[str, ...]


class Devices(Protocol):
    """What a driver does with the devices of its own."""

    def prepare(self, claim: Claim) -> Sequence[Prepared]:
        """Make the devices of a claim ready; doing it again changes nothing. Raises CannotPrepare."""

    def unprepare(self, uid: str) -> None:
        """Undo `prepare` for the claim `uid`; one that was never prepared is no error."""
