"""From a ResourceClaim's status to the devices that were allocated, and which of them have their identity there."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from dra.allocation import AllocatedDevice
from dra.attributes import AttributeTable, identity_in_status, identity_of
from dra.errors import Failed, Refused
from dra.names import require_dns_label, require_dns_subdomain, require_pool, require_request
from dra.reasons import Reason
from webhook.allocations.pools import PoolName
from webhook.decision import RawObject
from webhook.raw import mapping, mappings, name_of

Pools = Mapping[PoolName, Mapping[str, Mapping[str, Any]]]
"""The attributes of devices, by pool and device."""
_WRONG = Reason.INVALID_ANSWER
_KEY = ("driver", "pool", "device", "shareID")


def allocated_devices(claim: RawObject) -> tuple[AllocatedDevice, ...]:
    """Return the devices in the claim's allocation, each with the data that its driver wrote into the status.

    Raises Failed where nothing is allocated yet, Refused for a device with admin access: another workload may use it.
    Source: k8s.io/api/resource/v1, DeviceRequestAllocationResult and AllocatedDeviceStatus.
    """
    name = name_of(mapping(claim, "metadata"))
    results = mappings(claim, "status", "allocation", "devices", "results")
    if not results:
        raise Failed(Reason.NOT_ALLOCATED, f"no device is allocated for ResourceClaim {name!r} yet")
    if any(result.get("adminAccess") for result in results):
        message = f"ResourceClaim {name!r} has admin access: its devices may be in use. Use a claim without adminAccess"
        raise Refused(Reason.ADMIN_ACCESS, message)
    data = {_key(each): mapping(each, "data") for each in mappings(claim, "status", "devices")}
    path = f"ResourceClaim {name!r}: status.allocation.devices.results"
    return tuple(_device(result, data, f"{path}[{index}]") for index, result in enumerate(results))


def pools_to_ask(devices: Iterable[AllocatedDevice], table: AttributeTable) -> set[PoolName]:
    """Return the pools of the devices whose status does not tell which they are. Raises Refused."""
    return {PoolName(each.driver, each.pool) for each in devices if identity_in_status(each, table) is None}


def with_attributes(device: AllocatedDevice, pools: Pools, table: AttributeTable) -> AllocatedDevice:
    """Return the device with what its pool advertises of it.

    Raises Refused for a share of a device whose identity only the slice tells: all shares would have it.
    """
    attributes = pools.get(PoolName(device.driver, device.pool), {}).get(device.device, {})
    device = replace(device, attributes=attributes)
    if device.share_id is not None and identity_in_status(device, table) is None and identity_of(device, table):
        message = (
            f"device {device} is allocated in shares, and only its ResourceSlice tells which it is, the same for all:"
            " its driver must write the identity of each share into the claim's status.devices"
        )
        raise Refused(Reason.SHARED_DEVICE, message)
    return device


def _device(result: RawObject, data: Mapping[tuple[object, ...], RawObject], path: str) -> AllocatedDevice:
    request, driver, pool, device = (str(result.get(key)) for key in ("request", "driver", "pool", "device"))
    share = result.get("shareID")
    return AllocatedDevice(
        request=require_request(request, f"{path}.request", _WRONG),
        driver=require_dns_subdomain(driver, f"{path}.driver", _WRONG),
        pool=require_pool(pool, f"{path}.pool", _WRONG),
        device=require_dns_label(device, f"{path}.device", _WRONG),
        share_id=str(share) if share is not None else None,
        data=data.get(_key(result), {}),
    )


def _key(item: RawObject) -> tuple[object, ...]:
    """Return what identifies a device, or a share of one: the same in result and status."""
    return tuple(str(item.get(field)) for field in _KEY)
