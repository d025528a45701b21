"""Which of our host devices show a display, and which one shows it from power-on (ramfb), as KubeVirt decides it.

libvirt refuses two ramfb devices in a domain and any display where there is no `<graphics>`, so the choice is one for
the domain as a whole. Source: KubeVirt pkg/virt-launcher/virtwrap/device/hostdevice/hostdev.go; libvirt formatdomain,
Host device assignment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dra.device import Device
from dra.errors import Refused
from dra.fields import Fields
from dra.identity import MdevUUID
from dra.reasons import Reason


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the rest of the domain, beside our host devices, means for a display."""

    graphics: bool
    """There is a `<graphics>` to show a display in."""
    display: bool
    """Another host device has its display on."""
    ramfb: bool
    """Another device has ramfb."""


@dataclass(frozen=True, slots=True)
class Display:
    """What a host device shows."""

    display: bool = False
    ramfb: bool = False


@dataclass(frozen=True, slots=True)
class _Wish:
    """What the owner said about a display; None: nothing."""

    display: bool | None = None
    ramfb: bool | None = None


def choose_displays(
    devices: Sequence[Device], vmi: Mapping[str, Any] | None, surroundings: Surroundings
) -> dict[str, Display]:
    """Return what each of our `devices`, given in the order of the domain, shows, by name.

    A device's own wish counts, else that of the VMI's `gpus` entry of its name. Where nobody wishes anything, the
    first mediated device shows the display, unless a device of others does.
    Raises Refused where a display is wished on a device that is no vGPU, or where the VMI cannot be read.
    """
    of_vmi = _wishes_of_vmi(vmi)
    wishes = {device.name: _wish(device, of_vmi.get(device.name, _Wish())) for device in devices}
    for device in devices:
        if wishes[device.name].display and not device.is_vgpu:
            message = f"device {device.name!r}: {device.identity} is no vGPU and has no display"
            raise Refused(Reason.DISPLAY_UNSUPPORTED, f"{message}: remove display and ramfb from its entry")
    if not surroundings.graphics:
        shown: list[str] = []
    elif any(wish.display is not None for wish in (*wishes.values(), *of_vmi.values())):
        shown = [name for name, wish in wishes.items() if wish.display]
    else:
        mdevs = [device.name for device in devices if isinstance(device.identity, MdevUUID)]
        shown = [] if surroundings.display else mdevs[:1]
    console = None if surroundings.ramfb else _boot_console(shown, wishes)
    return {device.name: Display(device.name in shown, ramfb=device.name == console) for device in devices}


def _boot_console(shown: Sequence[str], wishes: Mapping[str, _Wish]) -> str | None:
    """Return which of the devices that show a display gets the one ramfb: the first that wants it, else that may."""
    wanted = [name for name in shown if wishes[name].ramfb]
    unsaid = [name for name in shown if wishes[name].ramfb is None]
    return next(iter(wanted + unsaid), None)


def _wish(device: Device, of_vmi: _Wish) -> _Wish:
    """Return the wish for a device: its own before that of the VMI. A boot console needs a display."""
    display = True if device.display is None and device.ramfb else device.display
    return _Wish(
        display=of_vmi.display if display is None else display,
        ramfb=of_vmi.ramfb if device.ramfb is None else device.ramfb,
    )


def _wishes_of_vmi(vmi: Mapping[str, Any] | None) -> dict[str, _Wish]:
    """Return what the `gpus` of the VMI wish, by name: a `display` or `ramFB` that is not disabled is enabled."""
    if vmi is None:
        return {}
    spec = Fields.of(vmi, "", Reason.INVALID_VMI).mapping("spec")
    devices = spec.mapping("domain").mapping("devices")
    gpus = [
        Fields.of(gpu, f"{devices.at('gpus')}[{i}]", Reason.INVALID_VMI) for i, gpu in enumerate(devices.items("gpus"))
    ]
    return {gpu.text("name"): _wish_of_gpu(gpu.mapping("virtualGPUOptions")) for gpu in gpus}


def _wish_of_gpu(options: Fields) -> _Wish:
    display = options.mapping("display")
    return _Wish(_enabled(options, "display"), _enabled(display, "ramFB"))


def _enabled(fields: Fields, name: str) -> bool | None:
    if fields.raw.get(name) is None:
        return None
    return fields.mapping(name).optional_boolean("enabled") is not False
