"""The last look: a pod that lost its claims or its sidecar on the way is refused, whatever its annotations say."""

import pytest
from support.admission import (
    APPEND,
    DEVICES,
    INJECTED,
    OWNER,
    PLACEHOLDER,
    RESOURCE,
    compute_of,
    create,
    launcher_pod,
    patched,
    sidecar_of,
    update,
)

from dra.reasons import Reason
from webhook import pod
from webhook.validation import decide


def injected() -> dict:
    item = launcher_pod()
    return patched(item, pod.decide(create(item), PLACEHOLDER))


def refusal(item: dict) -> Reason:
    decision = decide(create(item), PLACEHOLDER)
    assert (decision.allowed, tuple(decision.patch)) == (False, ())
    assert decision.message.endswith(f"(reason: {decision.reason})")
    return decision.reason


def test_injected_pod_is_accepted_from_any_creator():
    """Who created it was asked before it was injected."""
    for username in (OWNER, ""):
        decision = decide(create(injected(), username=username), PLACEHOLDER)
        assert (decision.allowed, decision.reason, tuple(decision.patch)) == (True, Reason.ACCEPTED, ())


def test_pod_without_the_annotation_is_left_alone():
    assert decide(create(launcher_pod(None)), PLACEHOLDER).reason is Reason.NOT_OPTED_IN


def test_pod_that_is_no_launcher_is_left_alone():
    item = launcher_pod()
    del item["metadata"]["ownerReferences"]
    decision = decide(create(item), PLACEHOLDER)
    assert (decision.allowed, decision.reason) == (True, Reason.NOT_A_LAUNCHER)


def test_pod_is_looked_at_when_it_is_created_only():
    item = launcher_pod()
    decision = decide(update(item, item), PLACEHOLDER)
    assert (decision.allowed, decision.reason) == (True, Reason.UNCHANGED)


def test_launcher_that_was_not_injected_is_refused():
    assert refusal(launcher_pod()) is Reason.NOT_INJECTED


def drop_claims(item: dict) -> None:
    """Do what an API server without DRA does. Source: k8s.io/kubernetes/pkg/api/pod/util.go."""
    del item["spec"]["resourceClaims"]
    for each in item["spec"]["containers"] + item["spec"]["initContainers"]:
        del each["resources"]["claims"]


def drop_pod_claims(item: dict) -> None:
    del item["spec"]["resourceClaims"]


def change_claim(item: dict) -> None:
    item["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] = "other"


def drop_claims_of_compute(item: dict) -> None:
    del compute_of(item)["resources"]["claims"]


def drop_claims_of_sidecar(item: dict) -> None:
    sidecar_of(item)["resources"]["claims"] = []


def drop_sidecar(item: dict) -> None:
    item["spec"]["initContainers"] = []


def drop_init_containers(item: dict) -> None:
    del item["spec"]["initContainers"]


def drop_compute(item: dict) -> None:
    item["spec"]["containers"] = []


def drop_devices(item: dict) -> None:
    del item["metadata"]["annotations"][DEVICES]


def drop_marker(item: dict) -> None:
    del item["metadata"]["annotations"][INJECTED]


def put_placeholder_back(item: dict) -> None:
    compute_of(item)["resources"]["limits"][RESOURCE] = "1"


def pretend_to_be_skipped(item: dict) -> None:
    drop_sidecar(item)
    item["metadata"]["annotations"][INJECTED] = '{"mode": "skipped"}'


def pretend_to_provision(item: dict) -> None:
    drop_sidecar(item)
    item["metadata"]["annotations"] |= {
        "kubevirt.io/ephemeral-provisioning": "true",
        INJECTED: '{"mode": "provisioning"}',
    }


@pytest.mark.parametrize(
    ("lose", "reason"),
    [
        (drop_claims, Reason.CLAIMS_DROPPED),
        (drop_pod_claims, Reason.CLAIMS_DROPPED),
        (change_claim, Reason.CLAIMS_DROPPED),
        (drop_claims_of_compute, Reason.CLAIMS_DROPPED),
        (drop_claims_of_sidecar, Reason.CLAIMS_DROPPED),
        (drop_compute, Reason.CLAIMS_DROPPED),
        (drop_sidecar, Reason.SIDECAR_MISSING),
        (drop_init_containers, Reason.SIDECAR_MISSING),
        (drop_devices, Reason.SIDECAR_MISSING),
        (drop_marker, Reason.NOT_INJECTED),
        (put_placeholder_back, Reason.NOT_INJECTED),
        (pretend_to_be_skipped, Reason.SIDECAR_MISSING),
        (pretend_to_provision, Reason.SIDECAR_MISSING),
    ],
)
def test_pod_that_lost_something_on_the_way_is_refused(lose, reason: Reason):
    item = injected()
    lose(item)
    assert refusal(item) is reason


@pytest.mark.parametrize("lose", [drop_claims, drop_sidecar])
def test_marked_pod_is_refused_without_an_owner_too(lose):
    item = injected()
    del item["metadata"]["ownerReferences"]
    assert decide(create(item), PLACEHOLDER).reason is Reason.ACCEPTED
    lose(item)
    assert not decide(create(item), PLACEHOLDER).allowed


@pytest.mark.parametrize("marker", ["", "{}", "x", '{"mode": "placeholder"}'])
def test_marker_on_a_vm_without_devices_is_refused(marker: str):
    item = launcher_pod(None)
    item["metadata"]["annotations"][INJECTED] = marker
    assert refusal(item) is Reason.SIDECAR_MISSING


def test_wrong_annotation_is_refused_with_its_path():
    item = injected()
    item["metadata"]["annotations"][DEVICES] = "- {name: gpu0}"
    decision = decide(create(item), PLACEHOLDER)
    assert (decision.allowed, decision.reason) == (False, Reason.INVALID_ANNOTATION)
    assert decision.message.startswith("metadata.annotations[dravirt.io/devices][0]: needs exactly one of")


def test_skipped_migration_target_is_accepted():
    item = launcher_pod(placeholders=None)
    item["metadata"]["labels"]["kubevirt.io/migrationJobUID"] = "b3a1cf6e"
    assert refusal(item) is Reason.NOT_INJECTED
    item["metadata"]["annotations"][INJECTED] = '{"mode": "skipped"}'
    assert decide(create(item), PLACEHOLDER).reason is Reason.SKIPPED


def test_decision_depends_on_the_pod_and_not_on_the_mode():
    item = launcher_pod(placeholders=None)
    after = patched(item, pod.decide(create(item), APPEND))
    for config in (APPEND, PLACEHOLDER):
        assert decide(create(after), config).reason is Reason.ACCEPTED


@pytest.mark.parametrize(
    ("lose", "words"),
    [
        (drop_claims, ["the pod's resource claims are gone", "feature gate DynamicResourceAllocation is off"]),
        (drop_sidecar, ["dravirt.io/injected", "dravirt-hook", "remove it there"]),
        (drop_marker, ["dravirt.io/devices", "is the mutating webhook of dravirt registered"]),
    ],
)
def test_refusal_names_object_cause_and_remedy(lose, words: list):
    item = injected()
    lose(item)
    message = decide(create(item), PLACEHOLDER).message
    assert all(word in message for word in words)
