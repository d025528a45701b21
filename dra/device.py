"""A device to attach, as `dravirt resolve` prints it and `dravirt hook --devices` reads it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dra.contract import MAX_DEVICES
from dra.errors import Refused
from dra.fields import Fields, kind_of
from dra.identity import Identity, MdevUUID, PciAddress
from dra.names import require_dns_label
from dra.reasons import Reason

_WRONG = Reason.INVALID_DEVICES


class Kind(StrEnum):
    """What kind of device it is, learnt from the node."""

    VGPU_MDEV = "vgpu-mdev"
    VGPU_VF = "vgpu-vf"
    VF = "vf"
    """A virtual function without a vGPU type (AMD, Intel)."""
    PASSTHROUGH = "passthrough"


class Source(StrEnum):
    """Which source named the device."""

    METADATA = "metadata"
    ENVIRONMENT = "environment"
    SERVICE = "service"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class Device:
    """One device of a VM. Only name, identity, model, display and ramfb decide what libvirt gets."""

    name: str
    identity: Identity
    model: str = "vfio-pci"
    display: bool | None = None
    ramfb: bool | None = None
    kind: Kind | None = None
    profile: str | None = None
    mig_backed: bool | None = None
    iommu_group: str | None = None
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    request: str | None = None
    source: Source | None = None

    @property
    def is_vgpu(self) -> bool:
        """True for a vGPU of either kind; a mediated device of unknown kind is one."""
        return isinstance(self.identity, MdevUUID) or self.kind is Kind.VGPU_VF

    def to_json(self) -> dict[str, Any]:
        """Return the device as the contract shows it."""
        identity = "mdevUUID" if isinstance(self.identity, MdevUUID) else "pciAddress"
        return {
            "name": self.name,
            identity: str(self.identity),
            "model": self.model,
            "display": self.display,
            "ramfb": self.ramfb,
            "kind": self.kind,
            "profile": self.profile,
            "migBacked": self.mig_backed,
            "iommuGroup": self.iommu_group,
            "driver": self.driver,
            "pool": self.pool,
            "device": self.device,
            "request": self.request,
            "source": self.source,
        }


def read_devices(value: object, *, path: str) -> tuple[Device, ...]:
    """Return the devices of a list as the contract shows it. Raises Refused with the path of the wrong field."""
    if not isinstance(value, list):
        raise Refused(_WRONG, f"must be a list of devices, got {kind_of(value)}", path=path)
    if len(value) > MAX_DEVICES:
        raise Refused(_WRONG, f"must hold at most {MAX_DEVICES} devices, got {len(value)}", path=path)
    devices = tuple(_device(Fields.of(raw, f"{path}[{index}]", _WRONG)) for index, raw in enumerate(value))
    check_unique(devices)
    return devices


def check_unique(devices: Sequence[Device]) -> None:
    """Refuse two devices of one name or of one identity: libvirt would, or worse, one VM would hold a device twice."""
    names: dict[str, Device] = {}
    identities: dict[Identity, Device] = {}
    for device in devices:
        if device.name in names:
            raise Refused(Reason.DUPLICATE_DEVICE, f"two devices are called {device.name!r}")
        if other := identities.get(device.identity):
            origin = " and ".join(f"{each.name!r} (request {each.request or 'not named'})" for each in (other, device))
            raise Refused(Reason.DUPLICATE_DEVICE, f"devices {origin} resolve to the same device {device.identity}")
        names[device.name] = identities[device.identity] = device


def _device(fields: Fields) -> Device:
    kind, source = fields.optional_choice("kind", list(Kind)), fields.optional_choice("source", list(Source))
    return Device(
        name=require_dns_label(fields.text("name"), fields.at("name"), fields.reason),
        identity=_identity(fields),
        model=fields.optional_text("model") or "vfio-pci",
        display=fields.optional_boolean("display"),
        ramfb=fields.optional_boolean("ramfb"),
        kind=Kind(kind) if kind else None,
        profile=fields.optional_text("profile"),
        mig_backed=fields.optional_boolean("migBacked"),
        iommu_group=fields.optional_text("iommuGroup"),
        driver=fields.optional_text("driver"),
        pool=fields.optional_text("pool"),
        device=fields.optional_text("device"),
        request=fields.optional_text("request"),
        source=Source(source) if source else None,
    )


def _identity(fields: Fields) -> Identity:
    uuid, address = fields.optional_text("mdevUUID"), fields.optional_text("pciAddress")
    try:
        if uuid is not None and address is None:
            return MdevUUID.parse(uuid)
        if address is not None and uuid is None:
            return PciAddress.parse(address)
    except ValueError as error:
        raise fields.refuse("mdevUUID" if uuid is not None else "pciAddress", str(error)) from error
    raise Refused(fields.reason, "needs exactly one of mdevUUID and pciAddress", path=fields.path)
