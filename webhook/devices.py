"""The devices of a VMI's spec beside the ones asked for: what collides with them, and their placeholders.

A placeholder is an entry of `spec.domain.devices.gpus` with the resource that no node has. With it KubeVirt knows that
the VM has a VFIO device: it raises memlock, adds 1Gi and reports the VM as not migratable.
"""

from collections.abc import Mapping
from typing import Any

from dra.contract import PLACEHOLDER_RESOURCE
from dra.errors import Refused
from dra.intent import Mode
from dra.reasons import Reason
from dra.request import DeviceRequest
from webhook.annotation import Asked
from webhook.decision import RawObject
from webhook.raw import mapping, mappings, name_of


def check_devices(asked: Asked, spec: RawObject, mode: Mode, *, path: str) -> None:
    """Refuse what cannot stand beside the devices asked for in the VMI spec at `path`."""
    names = frozenset(asked.device_names)
    _check_host_devices(spec, names, f"{path}.domain.devices.hostDevices")
    _check_gpus(spec, names, mode, f"{path}.domain.devices.gpus")
    entries = enumerate(mappings(spec, "resourceClaims"))
    check_claims(asked, {index: entry.get("resourceClaimName") for index, entry in entries}, f"{path}.resourceClaims")


def check_claims(asked: Asked, native: Mapping[int, object], path: str) -> None:
    """Refuse a claim asked for by name that the list at `path` names as well: by position, what its entries name.

    A pod with two entries for one claim is never scheduled: its devices are counted twice.
    """
    names = {claim.claim for claim in asked.claims if claim.claim is not None}
    for index, name in native.items():
        if isinstance(name, str) and name in names:
            message = (
                f"ResourceClaim {name!r:.80} is asked for by the annotation too, and a pod that names a claim twice is"
                " never scheduled: remove one of the two"
            )
            raise Refused(Reason.CLAIM_TWICE, message, path=f"{path}[{index}].resourceClaimName")


def missing_placeholders(asked: Asked, spec: RawObject) -> list[dict[str, Any]]:
    """Return the entries that `spec.domain.devices.gpus` still needs, in the order of the devices."""
    present = {name_of(gpu) for gpu in _gpus(spec) if is_placeholder(gpu)}
    missing = [(r, name) for r in asked.requests for name in r.device_names if name not in present]
    holder = None if any(_has_ramfb(gpu) for gpu in _gpus(spec)) else _ramfb_holder(missing)
    return [
        {"name": name, "deviceName": PLACEHOLDER_RESOURCE, **_display_options(request, has_ramfb=name == holder)}
        for request, name in missing
    ]


def is_placeholder(gpu: RawObject) -> bool:
    """True for a device entry that asks for the placeholder resource."""
    return gpu.get("deviceName") == PLACEHOLDER_RESOURCE


def _gpus(spec: RawObject) -> list[RawObject]:
    return mappings(spec, "domain", "devices", "gpus")


def _check_host_devices(spec: RawObject, names: frozenset[str], path: str) -> None:
    for index, device in enumerate(mappings(spec, "domain", "devices", "hostDevices")):
        if is_placeholder(device):
            message = f"{PLACEHOLDER_RESOURCE} stands for a GPU: move the entry to gpus, or remove it"
            raise Refused(Reason.PLACEHOLDER_MISMATCH, message, path=f"{path}[{index}].deviceName")
        if name_of(device) in names:
            raise _conflict(device, f"{path}[{index}].name")


def _check_gpus(spec: RawObject, names: frozenset[str], mode: Mode, path: str) -> None:
    expected = set(names)  # one placeholder for each
    for index, gpu in enumerate(_gpus(spec)):
        field = f"{path}[{index}]"
        if is_placeholder(gpu):
            _check_placeholder(gpu, expected, mode, field)
            expected.remove(name_of(gpu))
        elif name_of(gpu) in names:
            raise _conflict(gpu, f"{field}.name")
        elif gpu.get("claimName") and mode is Mode.PLACEHOLDER:
            message = (
                "KubeVirt refuses GPUs with claimName beside placeholders: ask for all devices of the VM in one way"
            )
            raise Refused(Reason.NATIVE_CLAIM, message, path=f"{field}.claimName")


def _check_placeholder(gpu: RawObject, expected: set[str], mode: Mode, field: str) -> None:
    if mode is Mode.APPEND:
        message = f"asks for {PLACEHOLDER_RESOURCE}, but this installation is in append mode: remove the entry"
        raise Refused(Reason.PLACEHOLDER_MISMATCH, message, path=f"{field}.deviceName")
    if name_of(gpu) not in expected:
        message = f"the annotation asks for no (further) device {name_of(gpu)!r:.80}: remove the entry or ask for it"
        raise Refused(Reason.PLACEHOLDER_MISMATCH, message, path=f"{field}.name")


def _conflict(device: RawObject, field: str) -> Refused:
    message = f"{name_of(device)!r:.80} is also the name of a device asked for by the annotation: rename one"
    return Refused(Reason.NAME_CONFLICT, message, path=field)


def _ramfb_holder(devices: list[tuple[DeviceRequest, str]]) -> str | None:
    """Return the device that has the boot console: the one that asks for it, else the first with a display."""
    asking = [name for request, name in devices if request.ramfb]
    willing = [name for request, name in devices if request.display and request.ramfb is None]
    return next(iter(asking + willing), None)


def _display_options(request: DeviceRequest, *, has_ramfb: bool) -> dict[str, Any]:
    """Return the entry's `virtualGPUOptions`, none where the request asks for no display and refuses none.

    KubeVirt gives a ramfb to each display that does not forbid it, and libvirt refuses a second one, so all displays
    but one forbid it. Source: KubeVirt virtwrap/device/hostdevice/hostdev.go.
    """
    if request.display is None and not request.ramfb:
        return {}
    if request.display is False:
        return {"virtualGPUOptions": {"display": {"enabled": False}}}
    display: dict[str, Any] = {"enabled": True}
    if request.ramfb is not None or not has_ramfb:
        display["ramFB"] = {"enabled": has_ramfb}
    return {"virtualGPUOptions": {"display": display}}


def _has_ramfb(gpu: RawObject) -> bool:
    """True if KubeVirt gives the GPU entry a ramfb."""
    display = mapping(gpu, "virtualGPUOptions").get("display")
    if not isinstance(display, dict) or display.get("enabled") is False:
        return False
    return mapping(display, "ramFB").get("enabled") is not False
