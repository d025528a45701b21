"""From ResourceSlices to the devices of a pool: what a driver advertises.

A pool is published as several slices, one generation after the other. Only the newest generation counts, and only as a
whole: while a driver publishes it, a device that is missing may be in the slice that is still to come.
Source: k8s.io/api/resource/v1, ResourcePool; k8s.io/dynamic-resource-allocation/structured, GatherPools.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dra.errors import Failed, Refused
from dra.reasons import Reason
from webhook.decision import RawObject
from webhook.raw import mapping, mappings, name_of


@dataclass(frozen=True, slots=True, order=True)
class PoolName:
    """What identifies a pool."""

    driver: str
    name: str

    def __str__(self) -> str:
        return f"{self.name!r} of driver {self.driver!r}"


def pool_of(slice_: RawObject) -> PoolName:
    """Return the pool that a slice belongs to."""
    spec = mapping(slice_, "spec")
    return PoolName(str(spec.get("driver")), name_of(mapping(spec, "pool")))


def pool_devices(slices: Iterable[RawObject], pool: PoolName) -> dict[str, Mapping[str, Any]]:
    """Return the attributes of the pool's devices by device, from its newest generation.

    Raises Failed where not all slices of it are there, Refused where two devices have one name.
    """
    # By name: a slice that changed between two lists is there twice, and the later one counts.
    own = {name_of(mapping(each, "metadata")): mapping(each, "spec") for each in slices if pool_of(each) == pool}
    newest = max((_number(spec, "generation") for spec in own.values()), default=0)
    kept = [spec for spec in own.values() if _number(spec, "generation") == newest]
    counts = {_number(spec, "resourceSliceCount") for spec in kept}
    if counts != {len(kept)}:
        expected = " or ".join(map(str, sorted(counts))) or "some"
        message = f"pool {pool} is being published: {len(kept)} of {expected} slices of generation {newest} are there"
        raise Failed(Reason.INCOMPLETE_POOL, message)
    devices: dict[str, Mapping[str, Any]] = {}
    for device in (each for spec in kept for each in mappings(spec, "devices")):
        if name_of(device) in devices:
            raise Refused(Reason.INVALID_POOL, f"pool {pool} has two devices called {name_of(device)!r:.80}")
        devices[name_of(device)] = _attributes(device)
    return devices


def _attributes(device: RawObject) -> Mapping[str, Any]:
    """Return the device's attributes, which v1beta1 keeps under `basic`."""
    return mapping(device, "attributes") or mapping(device, "basic", "attributes")


def _number(spec: RawObject, field: str) -> int:
    value = mapping(spec, "pool").get(field)
    return value if isinstance(value, int) else 0
