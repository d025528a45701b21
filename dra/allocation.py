"""An allocated device, as a driver or the API describes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """One device of a claim's allocation and what is known about it.

    `request` is `main`, or `main/sub` where the scheduler chose a sub-request. `attributes` are raw, as
    `{"name": {"string": "value"}}`; `data` is what the driver wrote into the claim's status, in a form of its own.
    Source: k8s.io/api/resource/v1, DeviceRequestAllocationResult, AllocatedDeviceStatus; KEP-5304.
    """

    request: str
    driver: str
    pool: str
    device: str
    share_id: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sort_key(self) -> tuple[str, str, str, str, str]:
        """The order of the devices of an entry, the same whichever source names them."""
        return self.request, self.driver, self.pool, self.device, self.share_id or ""

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"
