"""What holds of any object: decisions and nothing else come out, and twice is once."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.admission import (
    APPEND,
    COPIED,
    DEVICES,
    PLACEHOLDER,
    compute_of,
    create,
    launcher_pod,
    mark,
    patched,
    update,
    vm,
    vmi,
    without_injection,
)
from support.corpus import Case, corpus_cases
from support.mutation import anything, broken, reshaped

from dra.reasons import Reason
from webhook import pod, validation
from webhook import vm as vms
from webhook import vmi as vmis
from webhook.admission import HANDLERS
from webhook.config import Config
from webhook.decision import AdmissionRequest, Decision
from webhook.vm import Placement, settle

MANY = settings(max_examples=100, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
FEW = settings(MANY, max_examples=8)
configs = st.sampled_from([PLACEHOLDER, APPEND])


def provisioning() -> dict:
    item = launcher_pod()
    item["metadata"]["annotations"]["kubevirt.io/ephemeral-provisioning"] = "true"
    compute_of(item)["command"] = ["/bin/bash", "-c", "echo", "bound PVCs"]
    return item


def target() -> dict:
    item = launcher_pod()
    item["metadata"]["labels"]["kubevirt.io/migrationJobUID"] = "b3a1cf6e"
    return item


def injected() -> dict:
    item = launcher_pod()
    return patched(item, pod.decide(create(item), PLACEHOLDER))


PODS = [launcher_pod(), launcher_pod(placeholders=None), provisioning(), target(), injected()]


def assert_twice_is_once(item: dict, config: Config) -> None:
    decision = pod.decide(create(item), config)
    if not decision.allowed:
        return
    after = patched(item, decision)
    again = pod.decide(create(after), config)
    assert (again.allowed, tuple(again.patch)) == (True, ())
    if decision.reason is Reason.INJECTED:
        assert without_injection(after, item, mode=config.mode) == item
        assert validation.decide(create(after), config).reason is Reason.ACCEPTED
    if decision.reason in (Reason.SKIPPED, Reason.PROVISIONING):
        assert validation.decide(create(after), config).reason is decision.reason
    if not decision.patch:
        assert after == item


@MANY
@given(st.sampled_from(PODS).flatmap(reshaped), configs)
def test_pod_of_any_shape_is_injected_once_or_not_at_all(item: dict, config: Config):
    assert_twice_is_once(item, config)


@pytest.mark.parametrize(
    "case", corpus_cases("pods", names=["opt-two", "opt-append", "opt-with-two-hooks", "opt-guaranteed"])
)
@FEW
@given(data=st.data())
def test_pod_of_kubevirt_in_any_shape_is_injected_once_or_not_at_all(case: Case, data: st.DataObject):
    config = APPEND if case.name == "opt-append" else PLACEHOLDER
    assert_twice_is_once(data.draw(reshaped(case.pod())), config)


BASES = [*PODS, vmi(), vmi(gpus=[{"name": "a"}]), vm("a", "b", "c"), vm(None, "a", gpus=[{"name": "gpu0"}]), vm("a")]
raw_objects = st.sampled_from(BASES).flatmap(broken) | st.dictionaries(st.text(max_size=4), anything, max_size=3)


@settings(MANY, max_examples=400)
@given(
    raw_objects,
    raw_objects | st.none(),
    configs,
    st.sampled_from(["CREATE", "UPDATE"]),
    st.sampled_from(list(HANDLERS)),
)
def test_object_of_any_shape_gets_a_decision(item: dict, old: dict | None, config: Config, operation: str, path: str):
    handler = HANDLERS[path]
    username = config.kubevirt_controller
    decision = handler.decide(AdmissionRequest("u", handler.kind, operation, "vms", "", username, item, old), config)
    assert isinstance(decision, Decision)
    json.dumps([list(decision.patch), decision.warnings])
    assert decision.allowed or (decision.message.endswith(f"(reason: {decision.reason})") and not decision.patch)


# VMs and VMIs.

VALUES = st.sampled_from([None, "a100-1-10c", "a40-12q", "- {name: gpu0, resourceClaimName: c}", "WRONG", "", 5])
MARKS = st.sampled_from([None, mark("a100-1-10c"), mark("a40-12q"), "x"])
placements = st.builds(Placement, VALUES, VALUES, MARKS)


@MANY
@given(placements, placements, VALUES)
def test_settled_placement_is_settled(now: Placement, before: Placement, written_by_owner: object):
    settled = settle(now, before, written_by_owner)
    assert settle(settled, before, written_by_owner) == settled


@MANY
@given(placements, placements, VALUES)
def test_owners_words_are_never_lost(now: Placement, before: Placement, written_by_owner: object):
    settled = settle(now, before, written_by_owner)
    assert settled.metadata == now.metadata
    if settled.template != now.template:
        assert now.template is None or now.copied == mark(str(now.template))
        assert settled.template == now.metadata


@st.composite
def changes(draw: st.DrawFn) -> tuple[dict | None, dict]:
    """Return a VM before and after a change."""
    now, before = draw(placements), draw(st.none() | placements)
    item = vm(now.metadata, now.template, now.copied)
    written = draw(VALUES)
    if written is not None:
        key = "kubectl.kubernetes.io/last-applied-configuration"
        item["metadata"]["annotations"][key] = json.dumps(vm(None, written))
    return (None if before is None else vm(before.metadata, before.template, before.copied)), draw(reshaped(item))


@MANY
@given(changes(), configs)
def test_vm_is_changed_once_and_where_dravirt_may(change: tuple, config: Config):
    old, item = change
    decision = vms.decide(create(item) if old is None else update(old, item), config)
    if not decision.allowed:
        return
    after = patched(item, decision)
    again = vms.decide(create(after) if old is None else update(old, after), config)
    assert (again.allowed, tuple(again.patch)) == (True, ())
    for each in (after, item):
        _forget(each, "metadata")
        _forget(each, "spec", "template", "metadata")
    assert after == item


def _forget(item: dict, *path: str) -> None:
    """Take our annotations out, and what had to be made for them."""
    parents = [item]
    for key in path:
        parents.append(parents[-1].get(key) or {})
    annotations = parents[-1].get("annotations") or {}
    for key in (DEVICES, COPIED):
        annotations.pop(key, None)
    for parent, key in [(parents[-1], "annotations"), *reversed(list(zip(parents, path, strict=False)))]:
        if not parent.get(key):
            parent.pop(key, None)


@MANY
@given(reshaped(vm(gpus=[{"name": "gpu0", "deviceName": "dravirt.io/gpu"}])), st.booleans(), configs)
def test_vm_without_the_annotation_is_never_changed(item: dict, created: bool, config: Config):
    decision = vms.decide(create(item) if created else update(vm(), item), config)
    assert (decision.allowed, tuple(decision.patch), decision.warnings) == (True, (), ())


GPUS = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(["gpu0", "gpu1", "own"]),
            "deviceName": st.sampled_from(["dravirt.io/gpu", "nvidia.com/A40"]),
        }
    ),
    max_size=3,
)


@MANY
@given(GPUS, st.integers(1, 3), st.booleans(), configs)
def test_accepted_vmi_has_one_placeholder_per_device(gpus: list, count: int, display: bool, config: Config):
    devices = [{"name": f"gpu{i}", "resourceClaimTemplateName": "t", "display": display} for i in range(count)]
    item = vmi(json.dumps(devices), gpus=gpus)
    decision = vmis.decide(create(item), config)
    if not decision.allowed:
        return
    after = patched(item, decision)
    assert not vmis.decide(create(after), config).patch
    found = after["spec"]["domain"]["devices"]["gpus"]
    placeholders = sorted(gpu["name"] for gpu in found if gpu["deviceName"] == "dravirt.io/gpu")
    assert placeholders == ([device["name"] for device in devices] if config is PLACEHOLDER else [])
    assert found[: len(gpus)] == gpus
