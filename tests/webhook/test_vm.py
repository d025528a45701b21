"""VMs: where the annotation stands, where it takes effect, and whose copy it is."""

import copy
import json
from dataclasses import dataclass

import pytest
from support.admission import APPEND, COPIED, DEVICES, PLACEHOLDER, RESOURCE, create, mark, patched, update, vm

from dra.reasons import Reason
from webhook.vm import decide

X, Y, Z = "a100-1-10c", "a100-2-20c", "a40-12q"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
RESTART = "dravirt.io/devices: the VM is running, the change takes effect at its next restart"


def placed(item: dict) -> tuple:
    """Return (metadata's value, template's value, mark of our copy)."""
    own = item["metadata"].get("annotations") or {}
    template = item["spec"]["template"]["metadata"].get("annotations") or {}
    return own.get(DEVICES), template.get(DEVICES), own.get(COPIED)


@dataclass(frozen=True)
class Rule:
    name: str
    before: tuple | None
    """The VM as it was, None where it is created: metadata, template, mark."""
    now: tuple
    after: tuple
    reason: Reason
    applied: str | None = None
    """The template's value in the manifest that kubectl applied last."""
    warning: str = ""


RULES = [
    Rule("template form", None, (None, X, None), (None, X, None), Reason.ACCEPTED),
    Rule("set on a new VM", None, (X, None, None), (X, X, mark(X)), Reason.COPIED),
    Rule("set later", (None, None, None), (X, None, None), (X, X, mark(X)), Reason.COPIED),
    Rule("changed", (X, X, mark(X)), (Y, X, mark(X)), (Y, Y, mark(Y)), Reason.COPIED),
    Rule("removed", (X, X, mark(X)), (None, X, mark(X)), (None, None, None), Reason.WITHDRAWN),
    Rule("removed, nothing copied", (X, None, None), (None, None, None), (None, None, None), Reason.NOT_OPTED_IN),
    Rule("template form set later", (None, None, None), (None, X, None), (None, X, None), Reason.ACCEPTED),
    Rule("template form changed", (None, X, None), (None, Y, None), (None, Y, None), Reason.ACCEPTED),
    Rule("template form removed", (None, X, None), (None, None, None), (None, None, None), Reason.NOT_OPTED_IN),
    Rule("both set, the same", None, (X, X, None), (X, X, None), Reason.ACCEPTED),
    Rule(
        "both set, different",
        None,
        (X, Y, None),
        (X, Y, None),
        Reason.ACCEPTED,
        warning=f"dravirt.io/devices: metadata says '{X}', the template '{Y}': the template wins",
    ),
    Rule(
        "metadata set beside an owner's template",
        (None, Y, None),
        (X, Y, None),
        (X, Y, None),
        Reason.ACCEPTED,
        warning="the template wins",
    ),
    Rule("removed beside an owner's template", (X, Y, None), (None, Y, None), (None, Y, None), Reason.ACCEPTED),
    Rule(
        "template overwritten", (X, X, mark(X)), (X, Y, mark(X)), (X, Y, None), Reason.ACCEPTED, warning="template wins"
    ),
    Rule("both changed to one", (X, X, mark(X)), (Y, Y, mark(X)), (Y, Y, None), Reason.ACCEPTED),
    Rule(
        "both changed, apart", (X, X, mark(X)), (Y, Z, mark(X)), (Y, Z, None), Reason.ACCEPTED, warning="template wins"
    ),
    Rule("our copy taken out of the template", (X, X, mark(X)), (X, None, mark(X)), (X, X, mark(X)), Reason.COPIED),
    Rule("all taken out", (X, X, mark(X)), (None, None, mark(X)), (None, None, None), Reason.NOT_OPTED_IN),
    Rule("moved in one update", (X, X, mark(X)), (None, X, mark(X)), (None, X, None), Reason.ACCEPTED, applied=X),
    Rule("moved and changed", (X, X, mark(X)), (None, Y, mark(X)), (None, Y, None), Reason.ACCEPTED, applied=Y),
    Rule(
        "moved, nothing shows it", (X, X, mark(X)), (None, X, mark(X)), (None, None, None), Reason.WITHDRAWN, applied=Y
    ),
    Rule(
        "written by the owner beside a change of metadata",
        (X, X, mark(X)),
        (Y, X, mark(X)),
        (Y, X, None),
        Reason.ACCEPTED,
        applied=X,
        warning="template wins",
    ),
    Rule(
        "template taken out behind the manifest's back",
        (None, X, None),
        (X, None, None),
        (X, X, None),
        Reason.COPIED,
        applied=X,
    ),
    Rule("moved the other way", (None, X, None), (X, None, None), (X, X, mark(X)), Reason.COPIED),
    Rule(
        "restored template under newer metadata",
        (Y, Y, mark(Y)),
        (Y, X, mark(Y)),
        (Y, X, None),
        Reason.ACCEPTED,
        warning=f"metadata says '{Y}', the template '{X}': the template wins",
    ),
    Rule("whole VM restored", (Y, Y, mark(Y)), (X, X, mark(X)), (X, X, mark(X)), Reason.ACCEPTED),
    Rule("created from an export", None, (X, X, mark(X)), (X, X, mark(X)), Reason.ACCEPTED),
    Rule("created from an export, changed", None, (Y, X, mark(X)), (Y, Y, mark(Y)), Reason.COPIED),
    Rule("created from an export without metadata", None, (None, X, mark(X)), (None, X, None), Reason.ACCEPTED),
    Rule("mark forged beside a template", (None, None, None), (None, X, mark(X)), (None, X, None), Reason.ACCEPTED),
    Rule("mark of another value", None, (X, Y, mark(Z)), (X, Y, None), Reason.ACCEPTED, warning="the template wins"),
    Rule("mark that is none", None, (X, Y, "true"), (X, Y, None), Reason.ACCEPTED, warning="the template wins"),
    Rule("mark without a value", (X, None, None), (None, None, mark(X)), (None, None, None), Reason.NOT_OPTED_IN),
]


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.name) for rule in RULES])
def test_annotation_stands_where_it_should(rule: Rule):
    item = vm(*rule.now)
    if rule.applied:
        item["metadata"]["annotations"][LAST_APPLIED] = json.dumps(vm(None, rule.applied))
    request = create(item) if rule.before is None else update(vm(*rule.before), item)
    decision = decide(request, PLACEHOLDER)
    assert placed(patched(item, decision)) == rule.after
    assert decision.reason is rule.reason
    assert rule.warning in "\n".join(decision.warnings)
    assert bool(decision.warnings) == bool(rule.warning)


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.name) for rule in RULES])
def test_second_pass_changes_nothing(rule: Rule):
    """The API server may call again after other webhooks, with what came out of the first call."""
    item = vm(*rule.now)
    if rule.applied:
        item["metadata"]["annotations"][LAST_APPLIED] = json.dumps(vm(None, rule.applied))
    old = None if rule.before is None else vm(*rule.before)
    first = decide(create(item) if old is None else update(old, item), PLACEHOLDER)
    after = patched(item, first)
    again = decide(create(after) if old is None else update(old, after), PLACEHOLDER)
    assert (again.allowed, tuple(again.patch)) == (True, ())


def test_nothing_but_the_annotation_and_its_mark_changes():
    item = vm(X)
    item["metadata"]["annotations"] |= {"other": "1"}
    item["spec"]["template"]["metadata"] = {"labels": {"a/b": "c"}, "annotations": {"d": "e"}}
    expected = copy.deepcopy(item)
    expected["metadata"]["annotations"][COPIED] = mark(X)
    expected["spec"]["template"]["metadata"]["annotations"][DEVICES] = X
    assert patched(item, decide(create(item), PLACEHOLDER)) == expected


@pytest.mark.parametrize("metadata", [None, {}, {"annotations": None}, {"labels": {"a": "b"}}, ...], ids=str)
def test_template_without_metadata_gets_some(metadata: object):
    item = vm(X)
    if metadata is ...:
        del item["spec"]["template"]["metadata"]
    else:
        item["spec"]["template"]["metadata"] = metadata
    assert patched(item, decide(create(item), PLACEHOLDER))["spec"]["template"]["metadata"]["annotations"] == {
        DEVICES: X
    }


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "5", "null", '{"spec": 1}', '{"spec": {"template": []}}', "[" * 50_000, 7, ["x"]],
    ids=lambda t: str(t)[:20],
)
def test_manifest_that_cannot_be_read_shows_nothing(text: object):
    now = vm(None, X, mark(X))
    now["metadata"]["annotations"][LAST_APPLIED] = text
    decision = decide(update(vm(X, X, mark(X)), now), PLACEHOLDER)
    assert placed(patched(now, decision)) == (None, None, None)


def test_update_that_leaves_the_annotation_alone_is_left_alone():
    for values in [(X, X, mark(X)), (X, None, None), (None, X, None), (X, Y, None)]:
        now = vm(*values)
        now["spec"]["runStrategy"] = "Halted"
        decision = decide(update(vm(*values), now), PLACEHOLDER)
        assert (decision.allowed, decision.reason, tuple(decision.patch), decision.warnings) == (
            True,
            Reason.UNCHANGED,
            (),
            (),
        )


def test_vm_without_the_annotation_is_left_alone():
    item = vm(gpus=[{"name": "gpu0", "deviceName": RESOURCE}])
    for request in (create(item), update(vm(), item)):
        decision = decide(request, PLACEHOLDER)
        assert (decision.allowed, decision.reason, tuple(decision.patch), decision.warnings) == (
            True,
            Reason.NOT_OPTED_IN,
            (),
            (),
        )


# A value that was stored is never denied: a stricter release must not keep anybody from stopping or deleting a VM.

STORED = "- {name: gpu0, resourceClaimTemplateName: t, count: 99}"


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ((STORED, None, None), (STORED, None, None)),
        ((STORED, STORED, mark(STORED)), (STORED, STORED, mark(STORED))),
        ((STORED, STORED, mark(STORED)), (None, STORED, mark(STORED))),
        ((None, STORED, None), (None, None, None)),
        ((None, STORED, None), (None, X, None)),
        ((STORED, None, None), (X, None, None)),
    ],
    ids=[
        "kept on metadata",
        "kept as our copy",
        "withdrawn",
        "removed",
        "mended in the template",
        "mended on metadata",
    ],
)
def test_stored_value_is_never_denied(before: tuple, now: tuple):
    decision = decide(update(vm(*before), vm(*now)), PLACEHOLDER)
    assert (decision.allowed, decision.warnings) == (True, ())


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ((X, STORED, None), (Y, STORED, None)),
        ((STORED, X, None), (STORED, None, None)),
        ((STORED, STORED, mark(STORED)), (STORED, None, mark(STORED))),
        ((STORED, X, None), (STORED, STORED, mark(STORED))),
        ((None, STORED, None), (STORED, None, None)),
    ],
    ids=["other value set on metadata", "template removed", "our copy removed", "copied in a first pass", "moved"],
)
def test_stored_value_that_takes_effect_is_warned_of(before: tuple, now: tuple):
    decision = decide(update(vm(*before), vm(*now)), PLACEHOLDER)
    assert decision.allowed
    assert any(
        warning.startswith(
            "the VM will not start: spec.template.metadata.annotations[dravirt.io/devices][0].count: must be"
        )
        for warning in decision.warnings
    )


@pytest.mark.parametrize("now", [(STORED, None, None), (None, STORED, None), (STORED, X, None)], ids=str)
def test_vm_that_is_being_deleted_is_left_alone(now: tuple):
    item = vm(*now)
    item["metadata"]["deletionTimestamp"] = "2026-08-01T00:00:00Z"
    decision = decide(update(vm(X, X, mark(X)), item), PLACEHOLDER)
    assert (decision.allowed, decision.reason, tuple(decision.patch)) == (True, Reason.BEING_DELETED, ())


# Warnings.


@pytest.mark.parametrize(
    ("before", "now", "warned"),
    [
        ((X, X, mark(X)), (Y, X, mark(X)), True),
        ((X, X, mark(X)), (None, X, mark(X)), True),
        ((None, None, None), (X, None, None), True),
        ((None, X, None), (None, None, None), True),
        ((X, X, mark(X)), (None, X, None), False),
        ((None, X, None), (X, X, None), False),
        ((X, None, None), (None, None, None), False),
    ],
    ids=["changed", "withdrawn", "set", "removed", "moved", "repeated on metadata", "removed where it had no effect"],
)
def test_change_of_a_running_vm_waits_for_its_restart(before: tuple, now: tuple, warned: bool):
    item = vm(*now) | {"status": {"created": True}}
    assert (RESTART in decide(update(vm(*before), item), PLACEHOLDER).warnings) is warned
    item["status"]["created"] = False
    assert RESTART not in decide(update(vm(*before), item), PLACEHOLDER).warnings


def test_advice_is_about_the_template():
    item = vm(None, "- {name: gpu0, resourceClaimName: shared}")
    item["spec"]["template"]["spec"]["evictionStrategy"] = "LiveMigrate"
    item["spec"]["template"]["metadata"]["annotations"]["kubevirt.io/disablePCIHole64"] = "true"
    assert decide(create(item), PLACEHOLDER).warnings == (
        "claim 'shared' is used directly: clones, pools and restores would share it",
        "evictionStrategy LiveMigrate: a VM with a GPU cannot migrate, so it blocks node drains",
        "kubevirt.io/disablePCIHole64 takes away the window that the memory of a GPU is mapped into",
    )


def test_owner_hears_of_append_mode():
    [warning] = decide(create(vm(X)), APPEND).warnings
    assert "memlock must come from reservedOverhead or the node" in warning


# What collides with the rest of the VM.

PATH = "spec.template.spec.domain.devices"
GPU0 = {"name": "gpu0", "deviceName": RESOURCE}
COLLISIONS = {
    "gpu": ({"gpus": [{"name": "gpu0", "deviceName": "nvidia.com/A40"}]}, Reason.NAME_CONFLICT, f"{PATH}.gpus[0].name"),
    "host device": (
        {"hostDevices": [{"name": "gpu0", "deviceName": "intel.com/qat"}]},
        Reason.NAME_CONFLICT,
        f"{PATH}.hostDevices[0].name",
    ),
    "claimName": ({"gpus": [{"name": "x", "claimName": "c"}]}, Reason.NATIVE_CLAIM, f"{PATH}.gpus[0].claimName"),
    "placeholder too many": (
        {"gpus": [GPU0, {"name": "gpu1", "deviceName": RESOURCE}]},
        Reason.PLACEHOLDER_MISMATCH,
        f"{PATH}.gpus[1].name",
    ),
}


@pytest.mark.parametrize("values", [(X, None), (None, X)], ids=["metadata", "template"])
@pytest.mark.parametrize(("devices", "reason", "field"), COLLISIONS.values(), ids=COLLISIONS)
def test_device_that_collides_is_denied_with_a_new_value(devices: dict, reason: Reason, field: str, values: tuple):
    for request in (create(vm(*values, **devices)), update(vm(**devices), vm(*values, **devices))):
        decision = decide(request, PLACEHOLDER)
        assert (decision.allowed, decision.reason, tuple(decision.patch)) == (False, reason, ())
        assert decision.message.startswith(f"{field}: ")
        assert decision.message.endswith(f"(reason: {reason})")


@pytest.mark.parametrize(
    ("devices", "field"), [(devices, field) for devices, _, field in COLLISIONS.values()], ids=COLLISIONS
)
def test_device_that_collides_with_a_stored_value_is_warned_of(devices: dict, field: str):
    decision = decide(update(vm(Y, X, None, **devices), vm(Z, X, None, **devices)), PLACEHOLDER)
    assert decision.allowed
    assert any(warning.startswith(f"the VM will not start: {field}: ") for warning in decision.warnings)


def test_placeholder_that_the_owner_wrote_is_welcome():
    decision = decide(create(vm(None, X, gpus=[GPU0])), PLACEHOLDER)
    assert (decision.allowed, decision.reason, tuple(decision.patch), decision.warnings) == (
        True,
        Reason.ACCEPTED,
        (),
        (),
    )


def test_value_on_metadata_that_loses_need_not_fit_the_vm():
    """It takes no effect beside the owner's template, so only its grammar counts."""
    item = vm("- {name: own, resourceClaimTemplateName: t}", X, gpus=[{"name": "own", "deviceName": "nvidia.com/A40"}])
    assert decide(create(item), PLACEHOLDER).allowed
