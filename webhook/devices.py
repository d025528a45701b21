"""The devices of a VMI's spec beside the ones asked for: what collides with them, and their placeholders.

A placeholder is an entry of `spec.domain.devices.gpus` with the resource that no node has. With it KubeVirt knows that
the VM has a VFIO device: it raises memlock, adds 1Gi and reports the VM as not migratable.
"""

from typing import Any

from dra.contract import PLACEHOLDER_RESOURCE
from dra.errors import Refused
from dra.intent import Mode
from dra.reasons import Reason
from dra.request import DeviceRequest
from webhook.annotation import Asked
from webhook.decision import RawObject
from webhook.raw import mapping, mappings


def check_devices(asked: Asked, spec: RawObject, mode: Mode, *, path: str) -> None:
    """Refuse what cannot stand beside the devices asked for in the VMI spec at `path`."""
    names = set(asked.device_names)
    for index, device in enumerate(mappings(spec, "domain", "devices", "hostDevices")):
        if device.get("name") in names:
            raise _conflict(device, f"{path}.domain.devices.hostDevices[{index}].name")
    for index, gpu in enumerate(_gpus(spec)):
        field = f"{path}.domain.devices.gpus[{index}]"
        if is_placeholder(gpu):
            _check_placeholder(gpu, names, mode, field)
        elif gpu.get("name") in names:
            raise _conflict(gpu, f"{field}.name")
        elif gpu.get("claimName") and mode is Mode.PLACEHOLDER:
            message = (
                "KubeVirt refuses GPUs with claimName beside placeholders: ask for all devices of the VM in one way"
            )
            raise Refused(Reason.NATIVE_CLAIM, message, path=f"{field}.claimName")


def missing_placeholders(asked: Asked, spec: RawObject) -> list[dict[str, Any]]:
    """Return the entries that `spec.domain.devices.gpus` still needs, in the order of the devices."""
    present = {gpu.get("name") for gpu in _gpus(spec) if is_placeholder(gpu)}
    missing = [(r, name) for r in asked.requests for name in r.device_names if name not in present]
    holder = None if any(_has_ramfb(gpu) for gpu in _gpus(spec)) else _ramfb_holder(missing)
    return [
        {"name": name, "deviceName": PLACEHOLDER_RESOURCE, **_display_options(request, has_ramfb=name == holder)}
        for request, name in missing
    ]


def is_placeholder(gpu: RawObject) -> bool:
    """True for a GPU entry that asks for the placeholder resource."""
    return gpu.get("deviceName") == PLACEHOLDER_RESOURCE


def _gpus(spec: RawObject) -> list[RawObject]:
    return mappings(spec, "domain", "devices", "gpus")


def _check_placeholder(gpu: RawObject, names: set[str], mode: Mode, field: str) -> None:
    if mode is Mode.APPEND:
        message = f"asks for {PLACEHOLDER_RESOURCE}, but this installation is in append mode: remove the entry"
        raise Refused(Reason.PLACEHOLDER_MISMATCH, message, path=f"{field}.deviceName")
    if gpu.get("name") not in names:
        message = f"no device {gpu.get('name')!r:.80} is asked for by the annotation: remove the entry or ask for it"
        raise Refused(Reason.PLACEHOLDER_MISMATCH, message, path=f"{field}.name")


def _conflict(device: RawObject, field: str) -> Refused:
    message = f"{device.get('name')!r:.80} is also the name of a device asked for by the annotation: rename one"
    return Refused(Reason.NAME_CONFLICT, message, path=field)


def _ramfb_holder(devices: list[tuple[DeviceRequest, str]]) -> str | None:
    """Return the device that has the boot console: the one that asks for it, else the first with a display."""
    asking = [name for request, name in devices if request.ramfb]
    willing = [name for request, name in devices if request.display and request.ramfb is None]
    return next(iter(asking + willing), None)


def _display_options(request: DeviceRequest, *, has_ramfb: bool) -> dict[str, Any]:
    """Return the entry's `virtualGPUOptions`, none where the request says nothing of a display.

    KubeVirt gives a ramfb to each display that does not forbid it, and libvirt refuses a second one, so all displays
    but one forbid it. Source: KubeVirt virtwrap/device/hostdevice/hostdev.go.
    """
    if request.display is None and request.ramfb is None:
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
