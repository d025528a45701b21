"""What a real API server sent: one story of VMs, VMIs and pods, and what dravirt answers to each part of it."""

import json
from pathlib import Path

import pytest
from support.admission import (
    APPEND,
    COPIED,
    DEVICES,
    PLACEHOLDER,
    RESOURCE,
    compute_of,
    create,
    hook_count,
    marker_of,
    patched,
    posted,
    qos_class,
    sidecar_of,
    update,
    without_injection,
)
from support.corpus import corpus_cases, live_reviews

from dra.reasons import Reason
from webhook import pod, validation, vm, vmi

VM_SET, VM_CHANGED, VM_REMOVED = "03-Mutating", "23-Mutating", "25-Mutating"
RESTART = "dravirt.io/devices: the VM is running, the change takes effect at its next restart"


@pytest.mark.parametrize("file", live_reviews("*-VirtualMachine-*.json"))
def test_review_of_a_vm_is_answered(file: Path):
    """virt-controller's updates carry the annotation of a VM that was stored before: they are nobody's change of it."""
    request = posted(file)
    decision = vm.decide(request, PLACEHOLDER)
    assert decision.allowed
    if request.operation == "UPDATE" and request.username != "admin":
        assert (decision.reason, tuple(decision.patch), decision.warnings) == (Reason.UNCHANGED, (), ())


@pytest.mark.parametrize("file", live_reviews("0[1-4]-*-VirtualMachine-CREATE*.json"))
def test_annotation_on_a_new_vm_is_copied_to_its_template(file: Path):
    """A dry run gets the same answer."""
    request = posted(file)
    decision = vm.decide(request, PLACEHOLDER)
    assert (decision.reason, decision.warnings) == (Reason.COPIED, ())
    after = patched(request.object, decision)
    assert after["spec"]["template"]["metadata"]["annotations"].pop(DEVICES) == "a100-1-10c"
    assert after["metadata"]["annotations"].pop(COPIED).isalnum()
    if not after["spec"]["template"]["metadata"]["annotations"]:
        del after["spec"]["template"]["metadata"]["annotations"]
    assert after == request.object


@pytest.mark.parametrize("file", live_reviews("2[34]-*-VirtualMachine-UPDATE.json"))
def test_changed_annotation_goes_to_the_template_and_waits_for_a_restart(file: Path):
    request = posted(file)
    decision = vm.decide(request, PLACEHOLDER)
    assert (decision.reason, decision.warnings) == (Reason.COPIED, (RESTART,))
    assert patched(request.object, decision)["spec"]["template"]["metadata"]["annotations"][DEVICES] == "a100-2-20c"


@pytest.mark.parametrize("file", live_reviews("2[56]-*-VirtualMachine-UPDATE.json"))
def test_removed_annotation_leaves_a_template_that_never_had_it(file: Path):
    decision = vm.decide(posted(file), PLACEHOLDER)
    assert (decision.allowed, decision.reason, tuple(decision.patch), decision.warnings) == (
        True,
        Reason.NOT_OPTED_IN,
        (),
        (),
    )


def test_story_of_a_vm_with_dravirt(corpus: Path):
    """The same changes, with our own answers in the stored objects: copied, changed, withdrawn."""

    def follow(name: str, old: dict | None) -> dict:
        [file] = (corpus / "live" / "reviews").glob(f"{name}-*.json")
        request = posted(file)
        item = request.object
        if old is not None:
            item["spec"]["template"] = old["spec"]["template"]
            if COPIED in old["metadata"]["annotations"]:
                item["metadata"].setdefault("annotations", {})[COPIED] = old["metadata"]["annotations"][COPIED]
        asked = create(item) if old is None else update(old, item)
        decision = vm.decide(asked, PLACEHOLDER)
        reasons.append(decision.reason)
        return patched(item, decision)

    reasons: list[Reason] = []
    stored = follow(VM_SET, None)
    values = [stored["spec"]["template"]["metadata"]["annotations"].get(DEVICES)]
    for name in (VM_CHANGED, VM_REMOVED):
        stored = follow(name, stored)
        values.append(stored["spec"]["template"]["metadata"]["annotations"].get(DEVICES))
    assert reasons == [Reason.COPIED, Reason.COPIED, Reason.WITHDRAWN]
    assert values == ["a100-1-10c", "a100-2-20c", None]
    assert COPIED not in stored["metadata"].get("annotations", {})


@pytest.mark.parametrize("file", live_reviews("*-VirtualMachineInstance-UPDATE.json"))
def test_update_of_a_vmi_is_left_alone(file: Path):
    for config in (PLACEHOLDER, APPEND):
        decision = vmi.decide(posted(file), config)
        assert decision.allowed
        assert decision.reason in (Reason.UNCHANGED, Reason.NOT_OPTED_IN)
        assert (tuple(decision.patch), decision.warnings) == ((), ())


@pytest.mark.parametrize("file", live_reviews("1[34]-*-VirtualMachineInstance-CREATE.json"))
def test_vmi_of_a_vm_whose_template_has_nothing_is_left_alone(file: Path):
    assert vmi.decide(posted(file), PLACEHOLDER).reason is Reason.NOT_OPTED_IN


@pytest.mark.parametrize("file", live_reviews("2[78]-*-VirtualMachineInstance-CREATE.json"))
def test_bare_vmi_gets_its_placeholder(file: Path):
    request = posted(file)
    decision = vmi.decide(request, PLACEHOLDER)
    assert decision.reason is Reason.PLACEHOLDERS_ADDED
    after = patched(request.object, decision)
    assert after["spec"]["domain"]["devices"].pop("gpus") == [{"name": "gpu0", "deviceName": RESOURCE}]
    assert after == request.object
    appended = vmi.decide(request, APPEND)
    assert (appended.reason, tuple(appended.patch)) == (Reason.ACCEPTED, ())


@pytest.mark.parametrize("file", live_reviews("1[78]-*-Pod-CREATE.json"))
def test_pod_of_a_vm_whose_template_has_nothing_is_left_alone(file: Path):
    for webhook in (pod, validation):
        decision = webhook.decide(posted(file), PLACEHOLDER)
        assert (decision.allowed, decision.reason, tuple(decision.patch)) == (True, Reason.NOT_OPTED_IN, ())


@pytest.mark.parametrize("file", live_reviews("31-Mutating-Pod-CREATE.json"))
def test_pod_of_the_bare_vmi_is_injected_in_append_mode_only(file: Path):
    request = posted(file)
    assert pod.decide(request, PLACEHOLDER).reason is Reason.PLACEHOLDER_MISMATCH
    after = patched(request.object, pod.decide(request, APPEND))
    assert without_injection(after, request.object, mode=APPEND.mode) == request.object


@pytest.mark.parametrize("file", live_reviews("32-Validating-Pod-CREATE.json"))
def test_pod_of_the_bare_vmi_is_refused_as_it_was_recorded(file: Path):
    """The recording webhook had injected nothing."""
    decision = validation.decide(posted(file), PLACEHOLDER)
    assert (decision.allowed, decision.reason) == (False, Reason.NOT_INJECTED)


@pytest.fixture
def launcher_review(corpus: Path):
    return posted(corpus / "live" / "pod-create-review.json")


def test_live_pod_is_injected_once(launcher_review):
    decision = pod.decide(launcher_review, PLACEHOLDER)
    assert (decision.reason, decision.warnings) == (Reason.INJECTED, ())
    before, after = launcher_review.object, patched(launcher_review.object, decision)
    assert without_injection(after, before) == before
    assert hook_count(after) == hook_count(before) + 1
    assert qos_class(after) == qos_class(before)
    assert marker_of(after)["devices"] == ["gpu0"]
    assert pod.decide(create(after), PLACEHOLDER).reason is Reason.ALREADY_INJECTED
    assert validation.decide(create(after), PLACEHOLDER).reason is Reason.ACCEPTED


@pytest.mark.parametrize("case", corpus_cases("pods", names=["opt-short"], tags=["v1.8.4"]))
def test_live_pod_gets_the_same_change_as_the_pod_of_the_corpus(case, launcher_review):
    def change(item: dict) -> dict:
        after = patched(item, pod.decide(create(item), PLACEHOLDER))
        sidecar = sidecar_of(after)
        for entry in sidecar["env"]:
            entry["value"] = entry["value"].replace("vgpu", "a100-1-10c")
        return {
            "sidecar": sidecar,
            "claims": [
                {key: value.replace("vgpu", "a100-1-10c") for key, value in claim.items()}
                for claim in after["spec"]["resourceClaims"]
            ],
            "container claims": compute_of(after)["resources"]["claims"],
            "env": compute_of(after)["env"][-1],
            "mount": compute_of(after)["volumeMounts"][-1],
            "volumes": after["spec"]["volumes"][-2:],
            "marker": marker_of(after),
        }

    assert change(launcher_review.object) == change(case.pod())


def test_wh04_pod_has_no_name_yet(launcher_review):
    assert launcher_review.name == ""
    assert "name" not in launcher_review.object["metadata"]
    assert launcher_review.object["metadata"]["generateName"] == "virt-launcher-vm3-"
    assert pod.decide(launcher_review, PLACEHOLDER).reason is Reason.INJECTED


def test_live_pod_whose_claims_were_dropped_is_refused(corpus: Path):
    decision = validation.decide(posted(corpus / "live" / "pod-validate-claims-dropped.json"), PLACEHOLDER)
    assert (decision.allowed, decision.reason, tuple(decision.patch)) == (False, Reason.CLAIMS_DROPPED, ())
    assert decision.message.startswith("the pod's resource claims are gone: the API server dropped them (feature gate ")
    assert decision.message.endswith("or another webhook removed them (reason: claims_dropped)")


def test_injected_live_pod_on_a_server_without_dra_is_refused(launcher_review):
    after = patched(launcher_review.object, pod.decide(launcher_review, PLACEHOLDER))
    after["spec"].pop("resourceClaims")
    for each in after["spec"]["containers"] + after["spec"]["initContainers"]:
        each["resources"].pop("claims", None)
    assert "claims" not in json.dumps([each["resources"] for each in after["spec"]["containers"]])
    assert validation.decide(create(after), PLACEHOLDER).reason is Reason.CLAIMS_DROPPED
