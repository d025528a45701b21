"""Every launcher pod that KubeVirt renders, in every release: injected once and nothing else touched, or left alone."""

import copy
import functools
import json

import pytest
from support.admission import (
    APPEND,
    DEVICES,
    ENV,
    INJECTED,
    PLACEHOLDER,
    RESOURCE,
    compute_of,
    create,
    hook_count,
    intent_of,
    marker_of,
    patched,
    qos_class,
    sidecar_of,
    without_injection,
)
from support.corpus import Case, corpus_cases

from dra.reasons import Reason
from webhook import pod, validation
from webhook.config import Config

WITHOUT_PLACEHOLDER = ("opt-append", "opt-native-claims")
opted_in = pytest.mark.parametrize("case", corpus_cases("pods", optin=True))
left_alone = pytest.mark.parametrize("case", corpus_cases("pods", optin=False))
in_append_mode = pytest.mark.parametrize("case", corpus_cases("pods", names=WITHOUT_PLACEHOLDER))
in_placeholder_mode = pytest.mark.parametrize("case", corpus_cases("pods", optin=True, but=WITHOUT_PLACEHOLDER))

# What the annotation of a case asks for: devices, pod claims and container claims. All others ask for the first.
ONE = (["gpu0"], [{"name": "dravirt-gpu0", "resourceClaimTemplateName": "a100-1-10c"}], [{"name": "dravirt-gpu0"}])
ASKED = {
    "opt-count": (
        ["gpu-0", "gpu-1"],
        [{"name": "dravirt-gpu-0", "resourceClaimTemplateName": "two-mig"}],
        [{"name": "dravirt-gpu-0"}],
    ),
    "opt-two": (
        ["gpu0", "gpu1"],
        [
            {"name": "dravirt-gpu0", "resourceClaimTemplateName": "a40-12q"},
            {"name": "dravirt-gpu1", "resourceClaimName": "shared-a40"},
        ],
        [{"name": "dravirt-gpu0"}, {"name": "dravirt-gpu1", "request": "vgpu"}],
    ),
}


def config_of(case: Case) -> Config:
    return APPEND if case.name in WITHOUT_PLACEHOLDER else PLACEHOLDER


def injected(case: Case) -> dict:
    return json.loads(_injected(case))


@functools.cache  # many tests look at each
def _injected(case: Case) -> str:
    before = case.pod()
    decision = pod.decide(create(before), config_of(case))
    assert decision.reason is Reason.INJECTED
    return json.dumps(patched(before, decision))


@opted_in
def test_pod_is_unchanged_but_for_what_an_injection_adds(case: Case):
    assert without_injection(injected(case), case.pod(), mode=config_of(case).mode) == case.pod()


@pytest.mark.parametrize("case", corpus_cases("pods", names=["opt-two"]))
def test_decision_leaves_its_input_as_it_was(case: Case):
    before = case.pod()
    kept = copy.deepcopy(before)
    pod.decide(create(before), PLACEHOLDER)
    assert before == kept


@opted_in
def test_second_pass_adds_nothing(case: Case):
    decision = pod.decide(create(injected(case)), config_of(case))
    assert (decision.allowed, decision.reason, tuple(decision.patch)) == (True, Reason.ALREADY_INJECTED, ())


@opted_in
def test_last_look_accepts_the_injected_pod(case: Case):
    decision = validation.decide(create(injected(case)), config_of(case))
    assert (decision.allowed, decision.reason) == (True, Reason.ACCEPTED)


@opted_in
def test_virt_launcher_waits_for_one_more_socket_and_finds_it(case: Case):
    before, after = case.pod(), injected(case)
    assert hook_count(after) == hook_count(before) + 1
    [volume] = [volume for volume in after["spec"]["volumes"] if volume["name"] == "hook-sidecar-sockets"]
    assert volume == {"name": "hook-sidecar-sockets", "emptyDir": {}}
    mount = {"name": "hook-sidecar-sockets", "mountPath": "/var/run/kubevirt-hooks"}
    assert compute_of(after)["volumeMounts"].count(mount) == 1
    assert mount in sidecar_of(after)["volumeMounts"]


@opted_in
def test_compute_stays_first_and_the_sidecar_starts_first(case: Case):
    before, after = case.pod()["spec"], injected(case)["spec"]
    assert [each["name"] for each in after["containers"]] == [each["name"] for each in before["containers"]]
    assert after["containers"][0]["name"] == "compute"
    names = [each["name"] for each in after["initContainers"]]
    assert names == ["dravirt-hook", *(each["name"] for each in before["initContainers"])]
    assert after["initContainers"][0]["restartPolicy"] == "Always"


@opted_in
def test_no_container_asks_for_the_placeholder_resource(case: Case):
    spec = injected(case)["spec"]
    assert RESOURCE not in json.dumps([each["resources"] for each in spec["containers"] if "resources" in each])
    assert RESOURCE not in json.dumps(spec["initContainers"])


@opted_in
def test_quality_of_service_class_stays(case: Case):
    assert qos_class(injected(case)) == qos_class(case.pod())


@pytest.mark.parametrize("case", corpus_cases("pods", names=["opt-guaranteed", "opt-dedicated"]))
def test_case_of_a_guaranteed_pod_is_one(case: Case):
    assert qos_class(case.pod()) == "Guaranteed"
    resources = sidecar_of(injected(case))["resources"]
    assert resources["requests"] == resources["limits"] == {"cpu": "200m", "memory": "64M"}


@pytest.mark.parametrize("case", corpus_cases("pods", names=["opt-one"]))
def test_sidecar_has_no_cpu_limit_where_compute_has_none(case: Case):
    resources = sidecar_of(injected(case))["resources"]
    assert resources["limits"] == {"memory": "64M"}
    assert resources["requests"] == {"cpu": "50m", "memory": "64M"}


@opted_in
def test_compute_and_sidecar_refer_to_the_claims_asked_for(case: Case):
    after = injected(case)
    _, pod_claims, references = ASKED.get(case.name, ONE)
    native = case.pod()["spec"].get("resourceClaims", [])
    assert after["spec"]["resourceClaims"] == native + pod_claims
    assert sidecar_of(after)["resources"]["claims"] == references
    own = compute_of(case.pod())["resources"].get("claims", [])
    assert compute_of(after)["resources"]["claims"] == own + references


@in_placeholder_mode
def test_virt_launcher_is_told_one_mdev_per_device(case: Case):
    devices, _, _ = ASKED.get(case.name, ONE)
    env = [entry for entry in compute_of(injected(case))["env"] if "RESOURCE" in entry["name"]]
    uuids = ["00000000-0000-4000-8000-000000000000", "00000000-0000-4000-8000-000000000001"]
    assert env == [{"name": ENV, "value": ",".join(uuids[: len(devices)])}]


@in_append_mode
def test_virt_launcher_is_told_of_no_device_in_append_mode(case: Case):
    assert ENV not in json.dumps(injected(case))


@opted_in
def test_intent_and_marker_name_the_devices(case: Case):
    after = injected(case)
    devices, pod_claims, _ = ASKED.get(case.name, ONE)
    mode = str(config_of(case).mode)
    assert marker_of(after) == {"version": "0.1.0", "mode": mode, "devices": devices}
    assert after["metadata"]["labels"][INJECTED] == "true"
    intent = intent_of(after)
    assert (intent["version"], intent["mode"], intent["service"]) == (1, mode, None)
    assert [device["podClaim"] for device in intent["devices"]] == [claim["name"] for claim in pod_claims]


@pytest.mark.parametrize("case", corpus_cases("pods", names=["opt-two"]))
def test_intent_repeats_what_the_owner_wrote(case: Case):
    nothing = {"template": None, "claim": None, "request": None, "count": 1, "ramfb": None}
    assert intent_of(injected(case))["devices"] == [
        nothing | {"name": "gpu0", "podClaim": "dravirt-gpu0", "template": "a40-12q", "display": True, "ramfb": True},
        nothing
        | {
            "name": "gpu1",
            "podClaim": "dravirt-gpu1",
            "claim": "shared-a40",
            "request": "vgpu",
            "display": False,
        },
    ]


@in_append_mode
def test_pod_without_placeholder_is_denied_in_placeholder_mode(case: Case):
    decision = pod.decide(create(case.pod()), PLACEHOLDER)
    assert (decision.allowed, decision.reason) == (False, Reason.PLACEHOLDER_MISMATCH)
    assert "asks for 0 placeholder devices, expected are 1 (gpu0)" in decision.message


@pytest.mark.parametrize("case", corpus_cases("pods", optin=True, but=(*WITHOUT_PLACEHOLDER, "opt-migration-target")))
def test_pod_with_placeholder_is_denied_in_append_mode(case: Case):
    decision = pod.decide(create(case.pod()), APPEND)
    assert (decision.allowed, decision.reason) == (False, Reason.PLACEHOLDER_MISMATCH)


@left_alone
def test_pod_that_did_not_opt_in_is_left_alone(case: Case):
    for config in (PLACEHOLDER, APPEND):
        for webhook in (pod, validation):
            decision = webhook.decide(create(case.pod()), config)
            assert (decision.allowed, decision.reason) == (True, Reason.NOT_OPTED_IN)
            assert (tuple(decision.patch), decision.warnings) == ((), ())


# A pod that only binds WaitForFirstConsumer storage gets everything of the VMI and runs no virt-launcher.
# Source: KubeVirt pkg/virt-controller/services/template.go, RenderLaunchManifest with tempPod.


def provisioning_pod(case: Case) -> dict:
    item = case.pod()
    item["metadata"]["annotations"]["kubevirt.io/ephemeral-provisioning"] = "true"
    compute = compute_of(item)
    rest = ["-c", "echo", "bound PVCs"]
    compute["command"] = ["/bin/bash", *([] if "args" in compute else rest)]
    if "args" in compute:
        compute["args"] = rest
    return item


@opted_in
def test_provisioning_pod_gets_the_claims_and_nothing_else(case: Case):
    before = provisioning_pod(case)
    decision = pod.decide(create(before), config_of(case))
    assert decision.reason is Reason.PROVISIONING
    after = patched(before, decision)

    devices, pod_claims, _ = ASKED.get(case.name, ONE)
    expected = provisioning_pod(case)
    expected["spec"]["resourceClaims"] = [*expected["spec"].get("resourceClaims", []), *pod_claims]
    for side in ("limits", "requests"):
        compute_of(expected)["resources"][side].pop(RESOURCE, None)
    marker = {"version": "0.1.0", "mode": "provisioning", "devices": devices}
    assert json.loads(after["metadata"]["annotations"].pop(INJECTED)) == marker
    assert after == expected


@opted_in
def test_provisioning_pod_is_changed_once_and_accepted(case: Case):
    before = provisioning_pod(case)
    after = patched(before, pod.decide(create(before), config_of(case)))
    again = pod.decide(create(after), config_of(case))
    assert (again.allowed, again.reason, tuple(again.patch)) == (True, Reason.ALREADY_INJECTED, ())
    last = validation.decide(create(after), config_of(case))
    assert (last.allowed, last.reason) == (True, Reason.PROVISIONING)


@opted_in
def test_provisioning_pod_without_its_claims_is_refused(case: Case):
    before = provisioning_pod(case)
    after = patched(before, pod.decide(create(before), config_of(case)))
    after["spec"].pop("resourceClaims")
    decision = validation.decide(create(after), config_of(case))
    assert (decision.allowed, decision.reason) == (False, Reason.CLAIMS_DROPPED)


@left_alone
def test_provisioning_pod_that_did_not_opt_in_is_left_alone(case: Case):
    for webhook in (pod, validation):
        decision = webhook.decide(create(provisioning_pod(case)), PLACEHOLDER)
        assert (decision.allowed, decision.reason, tuple(decision.patch)) == (True, Reason.NOT_OPTED_IN, ())


# The annotation of a running VMI can change, and reaches its migration target. KubeVirt's migration controller adds the
# marks of a target to what the corpus shows. Source: KubeVirt pkg/virt-controller/watch/migration, createTargetPod.


def as_migration_target(item: dict) -> dict:
    item["metadata"]["labels"]["kubevirt.io/migrationJobUID"] = "b3a1cf6e-6f3a-4a3c-9a3d-0f3f5a1d2c11"
    item["metadata"]["annotations"]["kubevirt.io/migrationJobName"] = "migration-1"
    return item


def target_without_placeholder(case: Case) -> dict:
    item = as_migration_target(case.pod())
    item["metadata"]["annotations"][DEVICES] = "a100-1-10c"
    return item


@in_placeholder_mode
def test_migration_target_with_placeholders_is_injected_as_any_launcher(case: Case):
    before = as_migration_target(case.pod())
    decision = pod.decide(create(before), PLACEHOLDER)
    assert decision.reason is Reason.INJECTED
    assert patched(before, decision) == as_migration_target(injected(case))


migration_targets = pytest.mark.parametrize(
    "case", corpus_cases("pods", names=["migration-target", "migration-target-sidecar"])
)


@migration_targets
def test_migration_target_of_a_vm_without_devices_is_only_marked(case: Case):
    before = target_without_placeholder(case)
    decision = pod.decide(create(before), PLACEHOLDER)
    assert (decision.allowed, decision.reason) == (True, Reason.SKIPPED)
    assert decision.warnings == (
        "the VMI started without its devices: the migration target gets none, they come with a restart",
    )
    after = patched(before, decision)
    marker = {"version": "0.1.0", "mode": "skipped", "devices": ["gpu0"]}
    assert json.loads(after["metadata"]["annotations"].pop(INJECTED)) == marker
    assert after == target_without_placeholder(case)


@migration_targets
def test_skipped_migration_target_stays_so_and_is_accepted(case: Case):
    before = target_without_placeholder(case)
    after = patched(before, pod.decide(create(before), PLACEHOLDER))
    again = pod.decide(create(after), PLACEHOLDER)
    assert (again.allowed, again.reason, tuple(again.patch)) == (True, Reason.SKIPPED, ())
    last = validation.decide(create(after), PLACEHOLDER)
    assert (last.allowed, last.reason) == (True, Reason.SKIPPED)


# An API server with DRA switched off drops the claims after the mutating webhooks and says nothing.


@opted_in
def test_pod_whose_claims_were_dropped_is_refused(case: Case):
    item = injected(case)
    item["spec"].pop("resourceClaims")
    for each in item["spec"]["containers"] + item["spec"]["initContainers"]:
        each.get("resources", {}).pop("claims", None)
    decision = validation.decide(create(item), config_of(case))
    assert (decision.allowed, decision.reason) == (False, Reason.CLAIMS_DROPPED)
    assert "feature gate DynamicResourceAllocation" in decision.message


@opted_in
def test_pod_that_was_not_injected_is_refused(case: Case):
    decision = validation.decide(create(case.pod()), config_of(case))
    assert (decision.allowed, decision.reason) == (False, Reason.NOT_INJECTED)
