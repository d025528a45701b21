"""Placeholders in a VMI: one per device, displays as KubeVirt reads them, and nothing that collides."""

import json

import pytest
from support.admission import RESOURCE

from dra.errors import Refused
from dra.intent import Mode
from dra.reasons import Reason
from webhook.annotation import FIELD, read_asked
from webhook.devices import check_devices, is_placeholder, missing_placeholders

TWO = [{"name": "a", "resourceClaimTemplateName": "t"}, {"name": "b", "resourceClaimTemplateName": "t"}]


def spec_of(**devices: object) -> dict:
    return {"domain": {"devices": devices}}


def asked(entries: list):
    return read_asked(json.dumps(entries), FIELD)


def placeholder(name: str, **display: object) -> dict:
    options = {"virtualGPUOptions": {"display": display}} if display else {}
    return {"name": name, "deviceName": RESOURCE, **options}


def entry(name: str, **fields: object) -> dict:
    return {"name": name, "resourceClaimTemplateName": "t", **fields}


ON, OFF, NO_RAMFB, RAMFB = (
    {"enabled": True},
    {"enabled": False},
    {"enabled": True, "ramFB": {"enabled": False}},
    {"enabled": True, "ramFB": {"enabled": True}},
)


@pytest.mark.parametrize(
    ("entries", "placeholders"),
    [
        pytest.param([entry("a")], [placeholder("a")], id="nothing said"),
        pytest.param([entry("a", count=3)], [placeholder(f"a-{i}") for i in range(3)], id="count"),
        pytest.param([entry("a", display=True)], [placeholder("a", **ON)], id="display"),
        pytest.param([entry("a", display=False)], [placeholder("a", **OFF)], id="no display"),
        pytest.param([entry("a", ramfb=True)], [placeholder("a", **RAMFB)], id="ramfb"),
        pytest.param(
            [entry("a", display=True, ramfb=False)], [placeholder("a", **NO_RAMFB)], id="display without ramfb"
        ),
        pytest.param(
            [entry("a", display=True), entry("b", display=True)],
            [placeholder("a", **ON), placeholder("b", **NO_RAMFB)],
            id="two displays, the first may have a ramfb",
        ),
        pytest.param(
            [entry("a", display=True), entry("b", ramfb=True)],
            [placeholder("a", **NO_RAMFB), placeholder("b", **RAMFB)],
            id="the one that asks has it",
        ),
        pytest.param(
            [entry("a"), entry("b", ramfb=False)],
            [placeholder("a"), placeholder("b")],
            id="no ramfb is no wish for a display",
        ),
        pytest.param(
            [entry("a", display=True, ramfb=False), entry("b", display=True)],
            [placeholder("a", **NO_RAMFB), placeholder("b", **ON)],
            id="the one that does not want it has it not",
        ),
        pytest.param(
            [entry("a", display=True, count=2), entry("b")],
            [placeholder("a-0", **ON), placeholder("a-1", **NO_RAMFB), placeholder("b")],
            id="count of displays",
        ),
        pytest.param(
            [entry("a", display=False), entry("b", display=True)],
            [placeholder("a", **OFF), placeholder("b", **ON)],
            id="second display",
        ),
    ],
)
def test_each_device_has_a_placeholder(entries: list, placeholders: list):
    assert missing_placeholders(asked(entries), spec_of()) == placeholders


@pytest.mark.parametrize(
    "spec", [{}, spec_of(), spec_of(gpus=None), spec_of(gpus=[]), spec_of(gpus="x"), {"domain": 1}]
)
def test_all_are_missing_where_there_is_none(spec: dict):
    assert missing_placeholders(asked(TWO), spec) == [placeholder("a"), placeholder("b")]


def test_placeholder_of_the_owner_stays_and_the_other_is_added():
    assert missing_placeholders(asked(TWO), spec_of(gpus=[placeholder("b")])) == [placeholder("a")]
    assert missing_placeholders(asked(TWO), spec_of(gpus=[placeholder("b"), placeholder("a")])) == []


@pytest.mark.parametrize(
    ("options", "has_ramfb"),
    [
        pytest.param({"display": {}}, True, id="display"),
        pytest.param({"display": {"enabled": True}}, True, id="display on"),
        pytest.param({"display": {"enabled": True, "ramFB": {}}}, True, id="ramfb"),
        pytest.param({"display": {"enabled": True, "ramFB": {"enabled": True}}}, True, id="ramfb on"),
        pytest.param({"display": {"enabled": True, "ramFB": {"enabled": False}}}, False, id="ramfb off"),
        pytest.param({"display": {"enabled": False}}, False, id="display off"),
        pytest.param({"display": None}, False, id="null"),
        pytest.param({}, False, id="no display"),
        pytest.param(None, False, id="nothing"),
        pytest.param("x", False, id="malformed"),
    ],
)
def test_display_beside_a_gpu_with_ramfb_has_none(options: object, has_ramfb: bool):
    own = {"name": "own", "deviceName": "nvidia.com/A40-12Q", "virtualGPUOptions": options}
    [added] = missing_placeholders(asked([entry("a", display=True)]), spec_of(gpus=[own]))
    assert added == placeholder("a", **(NO_RAMFB if has_ramfb else ON))


CONFLICTS = {
    "gpu of the name": (
        spec_of(gpus=[{"name": "x"}, {"name": "b", "deviceName": "nvidia.com/A40"}]),
        Reason.NAME_CONFLICT,
        "spec.domain.devices.gpus[1].name: 'b' is also the name of a device",
    ),
    "native gpu of the name": (
        spec_of(gpus=[{"name": "a", "claimName": "c", "requestName": "r"}]),
        Reason.NAME_CONFLICT,
        "spec.domain.devices.gpus[0].name: 'a' is also the name of a device",
    ),
    "host device of the name": (
        spec_of(hostDevices=[{"name": "a", "deviceName": "intel.com/qat"}]),
        Reason.NAME_CONFLICT,
        "spec.domain.devices.hostDevices[0].name: 'a' is also the name of a device",
    ),
    "native gpu": (
        spec_of(gpus=[{"name": "x", "claimName": "c", "requestName": "r"}]),
        Reason.NATIVE_CLAIM,
        "spec.domain.devices.gpus[0].claimName: KubeVirt refuses GPUs with claimName beside placeholders",
    ),
    "placeholder too many": (
        spec_of(gpus=[placeholder("a"), placeholder("c")]),
        Reason.PLACEHOLDER_MISMATCH,
        "spec.domain.devices.gpus[1].name: the annotation asks for no (further) device 'c'",
    ),
    "placeholder twice": (
        spec_of(gpus=[placeholder("a"), placeholder("a")]),
        Reason.PLACEHOLDER_MISMATCH,
        "spec.domain.devices.gpus[1].name: the annotation asks for no (further) device 'a'",
    ),
    "placeholder without a name": (
        spec_of(gpus=[{"deviceName": RESOURCE}]),
        Reason.PLACEHOLDER_MISMATCH,
        "spec.domain.devices.gpus[0].name: the annotation asks for no (further) device ''",
    ),
    "placeholder with a list for a name": (
        spec_of(gpus=[{"name": ["a"], "deviceName": RESOURCE}]),
        Reason.PLACEHOLDER_MISMATCH,
        "spec.domain.devices.gpus[0].name: the annotation asks for no (further) device ''",
    ),
    "placeholder among the host devices": (
        spec_of(hostDevices=[{"name": "x"}, placeholder("c")]),
        Reason.PLACEHOLDER_MISMATCH,
        "spec.domain.devices.hostDevices[1].deviceName: dravirt.io/gpu stands for a GPU: move the entry to gpus",
    ),
}


@pytest.mark.parametrize(("spec", "reason", "text"), CONFLICTS.values(), ids=CONFLICTS)
def test_what_collides_is_refused_with_its_path(spec: dict, reason: Reason, text: str):
    with pytest.raises(Refused) as caught:
        check_devices(asked(TWO), spec, Mode.PLACEHOLDER, path="spec")
    assert caught.value.reason is reason
    assert caught.value.message.startswith(text)


def test_a_claim_that_the_vm_names_itself_is_refused_in_either_mode():
    template, direct = {"name": "x", "resourceClaimTemplateName": "mine"}, {"name": "y", "resourceClaimName": "mine"}
    for mode in Mode:
        with pytest.raises(Refused) as caught:
            check_devices(
                asked([{"name": "a", "resourceClaimName": "mine"}]),
                {"resourceClaims": [template, direct]},
                mode,
                path="spec",
            )
        assert caught.value.reason is Reason.CLAIM_TWICE
        assert caught.value.message.startswith(
            "spec.resourceClaims[1].resourceClaimName: ResourceClaim 'mine' is asked"
        )
    check_devices(asked([entry("a")]), {"resourceClaims": [template, direct, None]}, Mode.PLACEHOLDER, path="spec")


@pytest.mark.parametrize("name", [[], ["mine"], {"a": "mine"}, 1, None], ids=str)
def test_a_claim_whose_name_is_no_text_is_left_to_the_api_server(name: object):
    spec = {"resourceClaims": [{"name": "x", "resourceClaimName": name}]}
    check_devices(asked([{"name": "a", "resourceClaimName": "mine"}]), spec, Mode.PLACEHOLDER, path="spec")


@pytest.mark.parametrize("name", ["gpu of the name", "native gpu of the name", "host device of the name"])
def test_names_are_refused_in_append_mode_too(name: str):
    spec, reason, text = CONFLICTS[name]
    with pytest.raises(Refused) as caught:
        check_devices(asked(TWO), spec, Mode.APPEND, path="spec")
    assert caught.value.reason is reason
    assert caught.value.message.startswith(text)


def test_placeholder_is_refused_in_append_mode():
    with pytest.raises(Refused, match="append mode: remove the entry") as caught:
        check_devices(asked(TWO), spec_of(gpus=[placeholder("a")]), Mode.APPEND, path="spec.template.spec")
    assert caught.value.reason is Reason.PLACEHOLDER_MISMATCH
    assert caught.value.path == "spec.template.spec.domain.devices.gpus[0].deviceName"


@pytest.mark.parametrize(
    "spec",
    [
        spec_of(gpus=[placeholder("b"), {"name": "own", "deviceName": "nvidia.com/A40"}, placeholder("a")]),
        spec_of(gpus=[{"name": "own", "deviceName": "nvidia.com/A40"}], hostDevices=[{"name": "x", "claimName": "c"}]),
        spec_of(gpus=[None, "x", {"name": ["a"]}, {"name": {}}], hostDevices=[1, {"name": []}]),
        spec_of(gpus={"name": "a"}, hostDevices="a"),
        {},
    ],
    ids=["own placeholders", "devices of plugins", "malformed entries", "malformed lists", "nothing"],
)
def test_everything_else_stands_beside_the_devices(spec: dict):
    check_devices(asked(TWO), spec, Mode.PLACEHOLDER, path="spec")


def test_native_gpu_stands_beside_devices_in_append_mode():
    native = {"name": "x", "claimName": "c", "requestName": "r"}
    check_devices(asked(TWO), spec_of(gpus=[native]), Mode.APPEND, path="spec")


def test_placeholder_is_known_by_its_resource():
    assert is_placeholder(placeholder("a"))
    assert not is_placeholder({"name": "a", "deviceName": "nvidia.com/A40"})
    assert not is_placeholder({})
