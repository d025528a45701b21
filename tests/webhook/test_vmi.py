"""VMIs: the annotation becomes placeholder GPUs when the VMI is created, or is refused."""

import json

import pytest
from support.admission import APPEND, PLACEHOLDER, RESOURCE, create, patched, update, vmi
from support.corpus import Case, corpus_cases

from dra.reasons import Reason
from webhook.vmi import decide

FIELD = "metadata.annotations[dravirt.io/devices]"
GPU0 = {"name": "gpu0", "deviceName": RESOURCE}


def gpus_of(item: dict) -> list | None:
    return item["spec"]["domain"]["devices"].get("gpus")


def without_placeholders(case: Case) -> dict:
    """Return the case's VMI as its owner wrote it."""
    item = case.vmi()
    rest = [gpu for gpu in gpus_of(item) or [] if gpu.get("deviceName") != RESOURCE]
    item["spec"]["domain"]["devices"].pop("gpus", None)
    if rest:
        item["spec"]["domain"]["devices"]["gpus"] = rest
    return item


with_placeholders = pytest.mark.parametrize(
    "case", corpus_cases("vmis", optin=True, but=["opt-append", "opt-native-claims"])
)


@with_placeholders
def test_placeholders_are_those_that_kubevirt_was_tried_with(case: Case):
    owners = without_placeholders(case)
    decision = decide(create(owners), PLACEHOLDER)
    assert decision.reason is Reason.PLACEHOLDERS_ADDED
    assert patched(owners, decision) == case.vmi()


@with_placeholders
def test_vmi_with_its_placeholders_is_left_as_it_is(case: Case):
    decision = decide(create(case.vmi()), PLACEHOLDER)
    assert (decision.allowed, decision.reason, tuple(decision.patch)) == (True, Reason.ACCEPTED, ())


@with_placeholders
def test_vmi_with_placeholders_is_refused_in_append_mode(case: Case):
    decision = decide(create(case.vmi()), APPEND)
    assert (decision.allowed, decision.reason) == (False, Reason.PLACEHOLDER_MISMATCH)


@pytest.mark.parametrize("case", corpus_cases("vmis", names=["opt-append", "opt-native-claims"]))
def test_nothing_is_added_in_append_mode(case: Case):
    decision = decide(create(case.vmi()), APPEND)
    assert (decision.allowed, decision.reason, tuple(decision.patch)) == (True, Reason.ACCEPTED, ())


@pytest.mark.parametrize("case", corpus_cases("vmis", names=["opt-native-claims"]))
def test_native_claims_beside_placeholders_are_refused(case: Case):
    decision = decide(create(case.vmi()), PLACEHOLDER)
    assert (decision.allowed, decision.reason) == (False, Reason.NATIVE_CLAIM)
    assert decision.message.startswith("spec.domain.devices.gpus[0].claimName: KubeVirt refuses GPUs with claimName")


@pytest.mark.parametrize("case", corpus_cases("vmis", optin=False))
def test_vmi_that_did_not_opt_in_is_left_alone(case: Case):
    for config in (PLACEHOLDER, APPEND):
        decision = decide(create(case.vmi()), config)
        assert (decision.allowed, decision.reason) == (True, Reason.NOT_OPTED_IN)
        assert (tuple(decision.patch), decision.warnings) == ((), ())


@pytest.mark.parametrize(
    ("gpus", "after"),
    [
        pytest.param(None, [GPU0], id="null"),
        pytest.param([], [GPU0], id="empty"),
        pytest.param(
            [{"name": "own", "deviceName": "x.org/y"}], [{"name": "own", "deviceName": "x.org/y"}, GPU0], id="own"
        ),
    ],
)
def test_placeholder_comes_after_the_gpus_of_the_owner(gpus: object, after: list):
    item = vmi(gpus=gpus)
    assert gpus_of(patched(item, decide(create(item), PLACEHOLDER))) == after


@pytest.mark.parametrize("spec", [{}, {"domain": {}}, {"domain": None}, {"domain": {"devices": None}}], ids=json.dumps)
def test_missing_parents_are_made(spec: dict):
    item = vmi() | {"spec": spec}
    assert patched(item, decide(create(item), PLACEHOLDER))["spec"] == {"domain": {"devices": {"gpus": [GPU0]}}}


TWO = '[{"name": "gpu0", "resourceClaimTemplateName": "t"}, {"name": "gpu1", "resourceClaimTemplateName": "t"}]'


def test_placeholders_that_the_owner_wrote_are_kept_and_completed():
    own = {"name": "gpu1", "deviceName": RESOURCE, "virtualGPUOptions": {"display": {"enabled": False}}, "tag": "t"}
    item = vmi(TWO, gpus=[own])
    assert gpus_of(patched(item, decide(create(item), PLACEHOLDER))) == [own, GPU0]


def test_all_placeholders_that_the_owner_wrote_need_nothing():
    item = vmi(TWO, gpus=[{"name": "gpu1", "deviceName": RESOURCE}, GPU0])
    decision = decide(create(item), PLACEHOLDER)
    assert (decision.allowed, decision.reason, tuple(decision.patch)) == (True, Reason.ACCEPTED, ())


@pytest.mark.parametrize(
    ("item", "reason", "text"),
    [
        pytest.param(
            vmi("- {name: gpu0, resourceClaimTemplateName: t, count: 0}"),
            Reason.INVALID_ANNOTATION,
            f"{FIELD}[0].count: must be between 1 and 32, got 0",
            id="annotation",
        ),
        pytest.param(vmi(5), Reason.INVALID_ANNOTATION, f"{FIELD}: must be text, got an integer", id="type"),
        pytest.param(
            vmi(gpus=[{"name": "gpu0", "deviceName": "nvidia.com/A40"}]),
            Reason.NAME_CONFLICT,
            "spec.domain.devices.gpus[0].name: 'gpu0' is also the name of a device",
            id="name",
        ),
        pytest.param(
            vmi(gpus=[GPU0, {"name": "gpu1", "deviceName": RESOURCE}]),
            Reason.PLACEHOLDER_MISMATCH,
            "spec.domain.devices.gpus[1].name: the annotation asks for no (further) device 'gpu1'",
            id="placeholder too many",
        ),
    ],
)
def test_what_is_wrong_is_denied_by_itself(item: dict, reason: Reason, text: str):
    """Instancetypes, preferences, pools and bare VMIs come without a VM that was checked."""
    decision = decide(create(item), PLACEHOLDER)
    assert (decision.allowed, decision.reason, tuple(decision.patch)) == (False, reason, ())
    assert decision.message.startswith(text)
    assert decision.message.endswith(f"(reason: {reason})")


def test_vmi_is_changed_when_it_is_created_only():
    item = vmi()
    decision = decide(update(item, vmi("wrong: [")), PLACEHOLDER)
    assert (decision.allowed, decision.reason, tuple(decision.patch)) == (True, Reason.UNCHANGED, ())


def test_advice_comes_with_the_answer():
    item = vmi('[{"name": "gpu0", "resourceClaimName": "shared"}]')
    item["spec"]["evictionStrategy"] = "LiveMigrate"
    assert decide(create(item), PLACEHOLDER).warnings == (
        "claim 'shared' is used directly: clones, pools and restores would share it",
        "evictionStrategy LiveMigrate: a VM with a GPU cannot migrate, so it blocks node drains",
    )


def test_vg11_vmi_gets_what_makes_kubevirt_raise_locked_memory():
    """virt-handler lifts the limit for a VMI with `gpus`; in append mode there is none, and the owner is told so."""
    item = vmi()
    assert gpus_of(patched(item, decide(create(item), PLACEHOLDER))) == [GPU0]
    assert any(
        "memlock must come from reservedOverhead or the node" in w for w in decide(create(item), APPEND).warnings
    )
