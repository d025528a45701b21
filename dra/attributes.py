"""Which attribute of a device holds what dravirt must know: a table per driver, with a default for all others.

No attribute name for the UUID of a mediated device is standardised, and a driver may publish two PCI addresses: the
bare `pciBusID` of a virtual function beside the standard one, which is its physical function's. So the order is: UUID,
bare address, standard address. A bare name and `<driver>/<name>` are the same attribute.
Source: k8s.io/api/resource/v1, QualifiedName; kubernetes/kubernetes#135552.

The data that a driver writes into a claim's status has no format; the same names are looked for there, plain or as
attributes are written. It comes first: it says what was prepared, a slice what was offered.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dra.allocation import AllocatedDevice
from dra.errors import Refused
from dra.identity import Identity, MdevUUID, PciAddress
from dra.reasons import Reason

STANDARD_PCI_ADDRESS = "resource.kubernetes.io/pciBusID"
_DATA_PCI_ADDRESS = "pciAddress"
"""Looked for in a status after the driver's own names: what dravirt itself calls a PCI address."""


@dataclass(frozen=True, slots=True)
class AttributeNames:
    """The attributes of one driver, each list in the order in which they are tried."""

    mdev_uuid: tuple[str, ...] = ("mdevUUID",)
    pci_address: tuple[str, ...] = ("pciBusID", STANDARD_PCI_ADDRESS)
    profile: tuple[str, ...] = ("profile",)


DEFAULT_NAMES = AttributeNames()

KNOWN_DRIVERS: Mapping[str, AttributeNames] = {
    "gpu.amd.com": AttributeNames(pci_address=("pciAddr", STANDARD_PCI_ADDRESS)),
    "gpu.intel.com": AttributeNames(pci_address=("pciAddress", STANDARD_PCI_ADDRESS)),
    "sriovnetwork.k8snetworkplumbingwg.io": AttributeNames(pci_address=("pciAddress", STANDARD_PCI_ADDRESS)),
}

AttributeTable = Mapping[str, AttributeNames]


def names_for(driver: str, table: AttributeTable) -> AttributeNames:
    """Return the attribute names of `driver`: as configured, as known, or the default."""
    return table.get(driver) or KNOWN_DRIVERS.get(driver, DEFAULT_NAMES)


def identity_of(device: AllocatedDevice, table: AttributeTable) -> Identity | None:
    """Return the identity of the device, from its status before its attributes; None where neither holds one (yet).

    A device with both is a mediated device: its address is the parent's. Raises Refused where what should be an
    identity is malformed or its two spellings differ.
    """
    return identity_in_status(device, table) or _first(device, device.attributes, names_for(device.driver, table))


def identity_in_status(device: AllocatedDevice, table: AttributeTable) -> Identity | None:
    """Return the identity that the driver wrote into the claim's status, None where it wrote none. Raises Refused."""
    names = names_for(device.driver, table)
    names = replace(names, pci_address=(*names.pci_address, _DATA_PCI_ADDRESS))
    values = {key: {"string": value} if isinstance(value, str) else value for key, value in device.data.items()}
    return _first(device, values, names)


def profile_of(device: AllocatedDevice, table: AttributeTable) -> str | None:
    """Return the vGPU profile that the device's attributes name, such as `NVIDIA A100-1-5C`."""
    profiles = (
        text
        for name in names_for(device.driver, table).profile
        for text in _texts(device, device.attributes, name).values()
    )
    return next(profiles, None)


def _first(device: AllocatedDevice, values: Mapping[str, Any], names: AttributeNames) -> Identity | None:
    for name in names.mdev_uuid:
        if uuid := _identity(MdevUUID, device, values, name):
            return uuid
    for name in names.pci_address:
        if address := _identity(PciAddress, device, values, name):
            return address
    return None


def _identity(
    kind: type[MdevUUID] | type[PciAddress], device: AllocatedDevice, values: Mapping[str, Any], name: str
) -> Identity | None:
    """Return the identity in the attribute `name`. `3b:00.4` and `0000:3B:00.4` are one, so identities are compared."""
    found: dict[str, Identity] = {}
    for spelling, text in _texts(device, values, name).items():
        try:
            found[spelling] = kind.parse(text)
        except ValueError as error:
            raise Refused(Reason.INVALID_ATTRIBUTE, f"device {device}: attribute {spelling}: {error}") from error
    if len(set(found.values())) > 1:
        both = " and ".join(f"{spelling}={identity}" for spelling, identity in found.items())
        raise Refused(Reason.AMBIGUOUS_IDENTITY, f"device {device}: {both} contradict each other")
    return next(iter(found.values()), None)


def _texts(device: AllocatedDevice, values: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return the values of the attribute by spelling. Values of other types than text are unusable."""
    bare = name.removeprefix(f"{device.driver}/")
    spellings = (bare,) if "/" in bare else (bare, f"{device.driver}/{bare}")
    return {spelling: text for spelling in spellings if (text := _string(values.get(spelling)))}


def _string(attribute: object) -> str | None:
    value = attribute.get("string") if isinstance(attribute, dict) else None
    return value if isinstance(value, str) else None
