"""Who shows a display and who has ramfb: one decision for the domain, as KubeVirt takes it."""

from typing import Any

import pytest
from support.domains import GRAPHICS, host_devices, mdev, passthrough, placeholder, shown, small_domain, vgpu_vf

from dra.device import Device, Kind
from dra.errors import Refused
from dra.identity import PciAddress
from dra.intent import Mode
from dra.reasons import Reason
from hooksidecar.domain import edit_domain

BOTH = ("on", "on")
DISPLAY = ("on", None)
NONE = (None, None)
OTHER = (
    '<hostdev type="mdev" model="vfio-pci"{}><source><address uuid="aa618089-8b16-4d01-a136-25a0f3c73123"/></source>'
    '<alias name="ua-gpu-other"/></hostdev>'
)


def displays(
    devices: list[Device], *others: str, vmi: dict[str, Any] | None = None, graphics: bool = True
) -> list[Any]:
    """Return display and ramfb of each device after the edit."""
    places = [placeholder(device.name, number) for number, device in enumerate(devices)]
    domain = small_domain(*([GRAPHICS] if graphics else []), *others, *places)
    found = host_devices(edit_domain(domain, devices, mode=Mode.PLACEHOLDER, vmi=vmi))
    return [shown(found[f"ua-gpu-{device.name}"]) for device in devices]


def vmi_with(**gpus: Any) -> dict[str, Any]:
    """Return a VMI with these `gpus`: their virtualGPUOptions by name."""
    entries = [{"name": name, "deviceName": "x", "virtualGPUOptions": options} for name, options in gpus.items()]
    return {"spec": {"domain": {"devices": {"gpus": entries}}}}


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        pytest.param([mdev("a")], [BOTH], id="one"),
        pytest.param([mdev("a", 1), mdev("b", 2)], [BOTH, NONE], id="first-of-two"),
        pytest.param([vgpu_vf("a", 1), mdev("b", 2)], [NONE, BOTH], id="first-mdev"),
        pytest.param([vgpu_vf("a", 1), vgpu_vf("b", 2)], [NONE, NONE], id="no-mdev"),
        pytest.param([passthrough("a")], [NONE], id="passthrough"),
        pytest.param([mdev("a", ramfb=False)], [DISPLAY], id="without-ramfb"),
    ],
)
def test_first_mdev_shows_the_display_where_nobody_said_anything(devices, expected):
    assert displays(devices) == expected


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        pytest.param([mdev("a", display=False)], [NONE], id="off"),
        pytest.param([mdev("a", 1, display=False), mdev("b", 2)], [NONE, NONE], id="off-stops-the-default"),
        pytest.param([mdev("a", 1), mdev("b", 2, display=True)], [NONE, BOTH], id="second"),
        pytest.param([mdev("a", 1, display=True), mdev("b", 2, display=True)], [BOTH, DISPLAY], id="two-one-ramfb"),
        pytest.param(
            [mdev("a", 1, display=True), mdev("b", 2, display=True, ramfb=True)], [DISPLAY, BOTH], id="ramfb-of-second"
        ),
        pytest.param(
            [mdev("a", 1, display=True, ramfb=False), mdev("b", 2, display=True)], [DISPLAY, BOTH], id="ramfb-declined"
        ),
        pytest.param([mdev("a", 1, ramfb=True), mdev("b", 2, ramfb=True)], [BOTH, DISPLAY], id="ramfb-wished-twice"),
        pytest.param([mdev("a", 1), mdev("b", 2, ramfb=True)], [NONE, BOTH], id="ramfb-means-display"),
        pytest.param([mdev("a", display=False, ramfb=True)], [NONE], id="no-ramfb-without-display"),
        pytest.param([vgpu_vf("a", display=True)], [BOTH], id="vf"),
        pytest.param([vgpu_vf("a", 1, display=True), mdev("b", 2)], [BOTH, NONE], id="vf-before-mdev"),
        pytest.param([vgpu_vf("a", display=False)], [NONE], id="vf-off"),
        pytest.param([passthrough("a", display=False, ramfb=False)], [NONE], id="passthrough-off"),
    ],
)
def test_wish_of_a_device_counts(devices, expected):
    assert displays(devices) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({"display": {}}, BOTH, id="display"),
        pytest.param({"display": {"enabled": None}}, BOTH, id="null"),
        pytest.param({"display": {"enabled": True, "ramFB": {}}}, BOTH, id="ramfb"),
        pytest.param({"display": {"enabled": True, "ramFB": {"enabled": False}}}, DISPLAY, id="ramfb-off"),
        pytest.param({"display": {"enabled": False, "ramFB": {"enabled": True}}}, NONE, id="off"),
        pytest.param({}, BOTH, id="nothing-said"),
        pytest.param(None, BOTH, id="absent"),
    ],
)
def test_wish_of_the_vmi_counts_where_the_device_has_none(options, expected):
    assert displays([mdev("a")], vmi=vmi_with(a=options)) == [expected]


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        pytest.param(mdev("a", display=True), BOTH, id="display"),
        pytest.param(mdev("a", ramfb=True), BOTH, id="ramfb"),
        pytest.param(mdev("a", display=True, ramfb=False), DISPLAY, id="display-only"),
    ],
)
def test_wish_of_the_device_comes_before_that_of_the_vmi(device, expected):
    assert displays([device], vmi=vmi_with(a={"display": {"enabled": False}})) == [expected]


def test_owner_of_two_placeholders_gets_one_ramfb():
    vmi = vmi_with(a={"display": {}}, b={"display": {}})
    assert displays([mdev("a", 1), mdev("b", 2)], vmi=vmi) == [BOTH, DISPLAY]


@pytest.mark.parametrize("said", [{}, {"enabled": False}], ids=["on", "off"])
def test_what_the_vmi_says_of_another_gpu_stops_the_default(said):
    assert displays([mdev("a")], vmi=vmi_with(other={"display": said})) == [NONE]


@pytest.mark.parametrize("vmi", [None, {}, {"spec": {"domain": {"devices": {"gpus": None}}}}])
def test_vmi_without_gpus_says_nothing(vmi):
    assert displays([mdev("a")], vmi=vmi) == [BOTH]


@pytest.mark.parametrize(
    ("other", "without_wish", "with_wish"),
    [
        pytest.param(OTHER.format(""), BOTH, BOTH, id="nothing"),
        pytest.param(OTHER.format(' display="off" ramfb="off"'), BOTH, BOTH, id="off"),
        pytest.param(OTHER.format(' display="on"'), NONE, BOTH, id="display"),
        pytest.param(OTHER.format(' display="on" ramfb="on"'), NONE, DISPLAY, id="display-and-ramfb"),
        pytest.param('<video><model type="ramfb"/></video>', DISPLAY, DISPLAY, id="video-ramfb"),
        pytest.param('<video><model type="none" ramfb="on"/></video>', DISPLAY, DISPLAY, id="video-with-ramfb"),
        pytest.param('<video><model type="vga" heads="1"/></video>', BOTH, BOTH, id="video-vga"),
    ],
)
def test_display_of_another_device_comes_first(other, without_wish, with_wish):
    assert displays([mdev("a")], other) == [without_wish]
    assert displays([mdev("a", display=True, ramfb=True)], other) == [with_wish]


@pytest.mark.parametrize("device", [mdev("a"), mdev("a", display=True, ramfb=True), vgpu_vf("a", display=True)])
def test_no_display_without_graphics(device):
    assert displays([device], graphics=False) == [NONE]


@pytest.mark.parametrize("wish", [{"display": True}, {"ramfb": True}], ids=["display", "ramfb"])
@pytest.mark.parametrize("graphics", [True, False])
@pytest.mark.parametrize(
    "kind", [Kind.PASSTHROUGH, Kind.VF, None], ids=["passthrough", "plain-vf", "pci-of-unknown-kind"]
)
def test_display_on_what_is_no_vgpu_is_refused(kind, graphics, wish):
    device = Device("a", PciAddress(0, 0x41, 0, 0), kind=kind, **wish)
    with pytest.raises(Refused, match=r"device 'a': 0000:41:00\.0 is no vGPU .*: remove display and ramfb") as caught:
        displays([device], graphics=graphics)
    assert caught.value.reason is Reason.DISPLAY_UNSUPPORTED


def test_display_that_the_vmi_wishes_on_what_is_no_vgpu_is_refused():
    with pytest.raises(Refused) as caught:
        displays([passthrough("a")], vmi=vmi_with(a={"display": {}}))
    assert caught.value.reason is Reason.DISPLAY_UNSUPPORTED


@pytest.mark.parametrize(
    ("vmi", "path"),
    [
        pytest.param([], "must be a mapping", id="list"),
        pytest.param({"spec": 1}, "spec: ", id="spec"),
        pytest.param({"spec": {"domain": {"devices": {"gpus": {}}}}}, "spec.domain.devices.gpus: ", id="gpus"),
        pytest.param({"spec": {"domain": {"devices": {"gpus": [1]}}}}, "spec.domain.devices.gpus[0]: ", id="gpu"),
        pytest.param(
            {"spec": {"domain": {"devices": {"gpus": [{}]}}}}, "spec.domain.devices.gpus[0].name: ", id="name"
        ),
        pytest.param(
            vmi_with(a={"display": {"enabled": "yes"}}),
            "spec.domain.devices.gpus[0].virtualGPUOptions.display.enabled: ",
            id="enabled",
        ),
    ],
)
def test_vmi_that_cannot_be_read_is_refused(vmi, path):
    with pytest.raises(Refused) as caught:
        displays([mdev("a")], vmi=vmi)
    assert caught.value.reason is Reason.INVALID_VMI
    assert str(caught.value).startswith(path)
