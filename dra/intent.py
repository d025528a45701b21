"""The intent: what the webhook tells the sidecar to attach, as one JSON text in the sidecar's environment.

A sidecar lives as long as its VM, through upgrades of the webhook: unknown keys are ignored, an unknown version is an
error of its own.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from dra.attributes import AttributeNames, names_for
from dra.claims import PodClaim
from dra.contract import MAX_DEVICES
from dra.errors import Refused
from dra.fields import Fields
from dra.names import is_attribute_name, is_dns_subdomain, require_dns_label
from dra.reasons import Reason
from dra.request import DeviceRequest, check_requests, read_request

VERSION = 1
NAME_LISTS = ("mdevUUID", "pciAddress", "profile")
"""The keys under which attribute names are configured."""
_WRONG = Reason.INVALID_INTENT
# Kubernetes takes any printable name without "="; KubeVirt's own hold dashes and dots (MDEV_PCI_RESOURCE_..._T4-2Q).
_VARIABLE = re.compile(r"[A-Za-z_][-._A-Za-z0-9]{0,252}")


class Mode(StrEnum):
    """How the sidecar puts the devices into the domain."""

    PLACEHOLDER = "placeholder"
    """Rewrite the host devices that KubeVirt rendered for the VMI's placeholder GPUs."""
    APPEND = "append"
    """Append host devices that KubeVirt knows nothing of."""


@dataclass(frozen=True, slots=True)
class ClaimedRequest:
    """A device request and the pod claim that serves it."""

    request: DeviceRequest
    pod_claim: str


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """Where the allocation service answers."""

    url: str
    ca: str
    server_name: str
    token_path: str


@dataclass(frozen=True, slots=True)
class Intent:
    """What one sidecar is to attach, and how it may learn which devices that are."""

    mode: Mode
    devices: tuple[ClaimedRequest, ...]
    service: ServiceAddress | None = None
    attributes: Mapping[str, AttributeNames] = field(default_factory=dict)
    """Configured attribute names by driver."""
    environment: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Configured names of environment variables by driver."""

    @classmethod
    def of(
        cls,
        mode: Mode,
        claims: tuple[PodClaim, ...],
        requests: tuple[DeviceRequest, ...],
        *,
        service: ServiceAddress | None = None,
        attributes: Mapping[str, AttributeNames] | None = None,
        environment: Mapping[str, tuple[str, ...]] | None = None,
    ) -> "Intent":
        """Return the intent for `requests`, in their order, each with the pod claim of `claims` that serves it."""
        # By request and not by name: `gpu` and `gpu` with a count of 2 are apart (gpu, gpu-0, gpu-1).
        names = {request: claim.name for claim in claims for request in claim.requests}
        devices = tuple(ClaimedRequest(request, names[request]) for request in requests)
        return cls(mode, devices, service, attributes or {}, environment or {})

    def to_json(self) -> str:
        """Return the intent as the contract shows it; what is not configured is left out."""
        value: dict[str, Any] = {
            "version": VERSION,
            "mode": self.mode,
            "devices": [_device_to_json(device) for device in self.devices],
            "service": _service_to_json(self.service),
        }
        if self.attributes:
            value["attributes"] = {driver: attributes_to_json(names) for driver, names in self.attributes.items()}
        if self.environment:
            value["environment"] = {driver: list(names) for driver, names in self.environment.items()}
        return json.dumps(value, separators=(",", ":"))


def read_intent(text: str, *, path: str) -> Intent:
    """Return the intent that the JSON `text` holds; `path` says where it comes from. Raises Refused."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(_WRONG, f"is no JSON: {error}", path=path) from error
    fields = Fields.of(value, path, _WRONG)
    version = fields.integer("version", 0, low=0, high=10**6)
    if version != VERSION:
        message = f"version {version} is not known to this sidecar (it knows {VERSION}): use images of one release"
        raise fields.refuse("version", message)
    devices = tuple(_read_device(fields, index) for index in range(len(fields.items("devices"))))
    if not 1 <= len(devices) <= MAX_DEVICES:
        raise fields.refuse("devices", f"must hold 1 to {MAX_DEVICES} devices, got {len(devices)}")
    check_requests(tuple(device.request for device in devices), fields.at("devices"), _WRONG)
    return Intent(
        mode=Mode(fields.optional_choice("mode", list(Mode)) or Mode.PLACEHOLDER),
        devices=devices,
        service=_read_service(fields),
        attributes=read_attributes(fields.mapping("attributes")),
        environment=read_environment(fields.mapping("environment")),
    )


def read_attributes(fields: Fields) -> dict[str, AttributeNames]:
    """Return the attribute names that are configured by driver: `{driver: {mdevUUID, pciAddress, profile}}`.

    A list that is absent or empty leaves what is known of the driver.
    """
    _check_drivers(fields)
    return {driver: _read_names(fields.mapping(driver), names_for(driver, {})) for driver in fields.raw}


def read_environment(fields: Fields) -> dict[str, tuple[str, ...]]:
    """Return the environment variables that are configured by driver: `{driver: [NAME]}`."""
    _check_drivers(fields)
    for driver in fields.raw:
        for index, name in enumerate(fields.texts(driver)):
            if not _VARIABLE.fullmatch(name):
                raise fields.refuse(
                    f"{driver}[{index}]", f"must be the name of an environment variable, got {name[:80]!a}"
                )
    return {driver: fields.texts(driver) for driver in fields.raw}


def attributes_to_json(names: AttributeNames) -> dict[str, list[str]]:
    """Return attribute names as the configuration file spells them."""
    return {"mdevUUID": list(names.mdev_uuid), "pciAddress": list(names.pci_address), "profile": list(names.profile)}


def _check_drivers(fields: Fields) -> None:
    for driver in fields.raw:
        if not is_dns_subdomain(driver):
            raise fields.refuse(driver, "must be the name of a DRA driver (DNS subdomain)")


def _read_names(fields: Fields, default: AttributeNames) -> AttributeNames:
    for key in NAME_LISTS:
        for index, name in enumerate(fields.texts(key)):
            if not is_attribute_name(name):
                raise fields.refuse(
                    f"{key}[{index}]", f"must be an attribute, `name` or `domain/name`, got {name[:80]!a}"
                )
    return AttributeNames(
        mdev_uuid=fields.texts("mdevUUID") or default.mdev_uuid,
        pci_address=fields.texts("pciAddress") or default.pci_address,
        profile=fields.texts("profile") or default.profile,
    )


def _read_device(intent: Fields, index: int) -> ClaimedRequest:
    fields = Fields.of(intent.items("devices")[index], f"{intent.at('devices')}[{index}]", _WRONG)
    pod_claim = require_dns_label(fields.text("podClaim"), fields.at("podClaim"), _WRONG)
    return ClaimedRequest(read_request(fields, template="template", claim="claim"), pod_claim)


def _read_service(intent: Fields) -> ServiceAddress | None:
    if intent.raw.get("service") is None:
        return None
    fields = intent.mapping("service")
    return ServiceAddress(fields.text("url"), fields.text("ca"), fields.text("serverName"), fields.text("tokenPath"))


def _device_to_json(device: ClaimedRequest) -> dict[str, Any]:
    request = device.request
    return {
        "name": request.name,
        "podClaim": device.pod_claim,
        "template": request.template,
        "claim": request.claim,
        "request": request.request,
        "count": request.count,
        "display": request.display,
        "ramfb": request.ramfb,
    }


def _service_to_json(service: ServiceAddress | None) -> dict[str, str] | None:
    if service is None:
        return None
    return {"url": service.url, "ca": service.ca, "serverName": service.server_name, "tokenPath": service.token_path}
