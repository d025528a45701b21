"""The DRA drivers that publish devices, and whether what they publish tells which device it is."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cli.doctor import remedies
from cli.doctor.codes import Code
from cli.doctor.facts import Objects, RawObject, Settings
from cli.doctor.finding import Finding
from cli.doctor.settings import change, value_of
from dra.allocation import AllocatedDevice
from dra.attributes import AttributeTable, identity_of, profile_of
from dra.errors import Failed, Refused
from dra.identity import Identity, MdevUUID, PciAddress
from webhook.allocations.pools import pool_devices, pool_of
from webhook.raw import mapping, mappings, name_of

_NVIDIA = (
    "helm upgrade --install dra-driver-nvidia-gpu oci://registry.k8s.io/dra-driver-nvidia/charts/dra-driver-nvidia-gpu"
    " -n dra-driver-nvidia-gpu --create-namespace"
    " --set gpuResourcesEnabledOverride=true"
    " --set featureGates.PassthroughSupport=true --set featureGates.DeviceMetadata=true"
)
_GPUS_OWN = re.compile(r"uuid|.*parent.*|.*root.*|.*bus_?root.*", re.IGNORECASE)
"""Names of attributes that hold the identity of something else: a GPU's own UUID, the bridge it hangs on."""


@dataclass(frozen=True, slots=True)
class Published:
    """A device of a slice: what dravirt reads of it."""

    driver: str
    pool: str
    name: str
    attributes: Mapping[str, Any]
    identity: Identity | None
    profile: str | None


def published(slices: Iterable[RawObject], settings: Settings | None) -> list[Published]:
    """Return the devices in all slices, identified as the webhook and its sidecars would."""
    table = settings.config.attributes if settings else {}
    return [_published(each, device, table) for each in slices for device in mappings(each, "spec", "devices")]


def _published(slice_: RawObject, raw: RawObject, table: AttributeTable) -> Published:
    pool = pool_of(slice_)
    # (v1beta1 keeps the attributes under `basic`)
    attributes = mapping(raw, "attributes") or mapping(raw, "basic", "attributes")
    device = AllocatedDevice("", pool.driver, pool.name, name_of(raw), attributes=attributes)
    try:
        identity = identity_of(device, table)
    except Refused:
        identity = None
    return Published(pool.driver, pool.name, name_of(raw), attributes, identity, profile_of(device, table))


def check_drivers(slices: Objects, settings: Settings | None) -> Iterator[Finding]:
    """Find drivers that are missing, or whose devices cannot be told."""
    devices = published(slices, settings)
    if not devices:
        yield Finding(Code.NO_DRIVER, "ResourceSlices", "no DRA driver publishes a device", _NVIDIA)
    for driver in sorted({each.driver for each in devices}):
        untold = [each for each in devices if each.driver == driver and each.identity is None]
        elsewhere = _elsewhere(untold)
        if elsewhere:
            yield _named_otherwise(untold[0], elsewhere, settings)
        elif untold:
            number = f"{len(untold)} of {sum(each.driver == driver for each in devices)} devices"
            what = f"{number} are published without an mdev UUID or a PCI address, such as {untold[0].name!r}"
            yield Finding(Code.IDENTITY_UNSEEN, f"driver {driver}", what)


def check_pools(slices: Objects) -> Iterator[Finding]:
    """Find pools of which slices are missing."""
    for pool in sorted({pool_of(each) for each in slices}):
        try:
            pool_devices(slices, pool)
        except (Failed, Refused) as error:
            names = [name_of(mapping(each, "metadata")) for each in slices if pool_of(each) == pool]
            # The driver publishes what it misses, with a generation of its own.
            remedy = remedies.kubectl("delete", "resourceslice", *names)
            yield Finding(Code.POOL_INCOMPLETE, f"pool {pool.name} of {pool.driver}", error.message, remedy)


def check_classes(slices: Objects, classes: Objects) -> Iterator[Finding]:
    """Find drivers that no DeviceClass names. (Its expression is searched for the driver's name, not evaluated.)"""
    expressions = [
        str(mapping(selector, "cel").get("expression"))
        for each in classes
        for selector in mappings(each, "spec", "selectors")
    ]
    for driver in sorted({pool_of(each).driver for each in slices if mappings(each, "spec", "devices")}):
        if not any(driver in each for each in expressions):
            expression = f'device.driver == "{driver}"'
            item = {
                "apiVersion": str(next(each["apiVersion"] for each in slices if pool_of(each).driver == driver)),
                "kind": "DeviceClass",
                "metadata": {"name": driver},
                "spec": {"selectors": [{"cel": {"expression": expression}}]},
            }
            yield Finding(
                Code.NO_DEVICE_CLASS, f"driver {driver}", "no DeviceClass selects its devices", remedies.apply(item)
            )


def _elsewhere(devices: list[Published]) -> dict[str, str]:
    """Return the attributes that hold an identity under a name that is not tried, by the list they belong to."""
    for each in devices:
        found: dict[str, str] = {}
        for name, value in each.attributes.items():
            text = value.get("string") if isinstance(value, dict) else None
            bare = name.rpartition("/")[2]
            if isinstance(text, str) and not _GPUS_OWN.fullmatch(bare):
                for kind, key in ((MdevUUID, "mdevUUID"), (PciAddress, "pciAddress")):
                    if _is(kind, text):
                        found.setdefault(key, name)
        if found:
            return found
    return {}


def _is(kind: type[MdevUUID] | type[PciAddress], text: str) -> bool:
    try:
        kind.parse(text)
    except ValueError:
        return False
    return True


def _named_otherwise(device: Published, names: Mapping[str, str], settings: Settings | None) -> Finding:
    told = " and ".join(f"{name!r} looks like its {key}, unless it is another device's" for key, name in names.items())
    remedy = ""
    if settings and not settings.fault:
        own = {key: [name] for key, name in names.items()}
        remedy = change(settings, "attributes", {**value_of(settings, "attributes"), device.driver: own})
    what = f"devices such as {device.name!r} have no attribute that dravirt reads; {told}"
    return Finding(Code.IDENTITY_ELSEWHERE, f"driver {device.driver}", what, remedy)
