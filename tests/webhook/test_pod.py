"""Launcher pods: who is injected, who is left alone, and that a tenant's own words change neither."""

import json

import pytest
from support.admission import (
    APPEND,
    CONTROLLER,
    INJECTED,
    PLACEHOLDER,
    RESOURCE,
    compute_of,
    create,
    hook_count,
    intent_of,
    launcher_pod,
    marker_of,
    patched,
    sidecar_of,
    update,
    without_injection,
)

from dra.attributes import AttributeNames
from dra.intent import ServiceAddress
from dra.reasons import Reason
from webhook import validation
from webhook.config import Config, Resources, SidecarConfig
from webhook.pod import decide

PROVISIONING = "kubevirt.io/ephemeral-provisioning"


def refusal(item: dict, *, config: Config = PLACEHOLDER, username: str = CONTROLLER) -> tuple[Reason, str]:
    decision = decide(create(item, username=username), config)
    assert (decision.allowed, tuple(decision.patch)) == (False, ())
    text, _, code = decision.message.rpartition(" (reason: ")
    assert code == f"{decision.reason})"
    return decision.reason, text


def injected(item: dict, config: Config = PLACEHOLDER) -> dict:
    decision = decide(create(item), config)
    assert decision.reason is Reason.INJECTED, decision.message
    return patched(item, decision)


def test_launcher_pod_is_injected_and_nothing_else_changes():
    assert without_injection(injected(launcher_pod()), launcher_pod()) == launcher_pod()


def test_pod_without_the_annotation_is_left_alone():
    item = launcher_pod(None)
    item["metadata"]["annotations"][INJECTED] = "{}"
    decision = decide(create(item), PLACEHOLDER)
    assert (decision.allowed, decision.reason, tuple(decision.patch)) == (True, Reason.NOT_OPTED_IN, ())


@pytest.mark.parametrize("missing", ["labels", "ownerReferences"])
def test_wh32_pod_that_is_no_launcher_is_not_injected(missing: str):
    """Else anyone would get a claim on any pod by the annotation."""
    item = launcher_pod()
    del item["metadata"][missing]
    for username in (CONTROLLER, "tenant"):
        decision = decide(create(item, username=username), PLACEHOLDER)
        assert (decision.allowed, decision.reason, tuple(decision.patch)) == (True, Reason.NOT_A_LAUNCHER, ())


def test_pod_is_changed_when_it_is_created_only():
    decision = decide(update(launcher_pod(), launcher_pod(), username=CONTROLLER), PLACEHOLDER)
    assert (decision.allowed, decision.reason, tuple(decision.patch)) == (True, Reason.UNCHANGED, ())


@pytest.mark.parametrize(
    "username",
    ["tenant", "", "system:serviceaccount:team-a:kubevirt-controller", "system:serviceaccount:kubevirt:default"],
)
def test_launcher_pod_of_another_creator_is_denied(username: str):
    reason, text = refusal(launcher_pod(), username=username)
    assert reason is Reason.UNTRUSTED_CREATOR
    assert text == (
        f"created by {username!r}, but only {CONTROLLER} may create a launcher pod with devices;"
        " is KubeVirt in another namespace? Set kubevirtNamespace in dravirt's configuration"
    )


def test_kubevirt_may_be_in_another_namespace():
    config = Config(kubevirt_namespace="openshift-cnv")
    item = launcher_pod()
    assert refusal(item, config=config)[0] is Reason.UNTRUSTED_CREATOR
    request = create(item, username="system:serviceaccount:openshift-cnv:kubevirt-controller")
    assert decide(request, config).reason is Reason.INJECTED


def test_wrong_annotation_is_denied_with_its_path():
    reason, text = refusal(launcher_pod("- {name: gpu0, resourceClaimTemplateName: t, count: 0}"))
    assert reason is Reason.INVALID_ANNOTATION
    assert text == "metadata.annotations[dravirt.io/devices][0].count: must be between 1 and 32, got 0"


# Placeholders.


@pytest.mark.parametrize(
    ("placeholders", "found"),
    [
        (None, "0"),
        ("0", "0"),
        ("2", "2"),
        ("1k", "1000"),
        ("1e3", "1000"),
        ("1.5", "no whole number of"),
        ("-1", "no whole number of"),
        ("", "no whole number of"),
        ("one", "no whole number of"),
    ],
)
def test_pod_with_another_number_of_placeholders_is_denied(placeholders: object, found: str):
    reason, text = refusal(launcher_pod(placeholders=placeholders))
    assert reason is Reason.PLACEHOLDER_MISMATCH
    assert text == (
        f"the pod asks for {found} placeholder devices, expected are 1 (gpu0): the VMI was created without dravirt's"
        " webhook or in another mode, or its annotation changed since; restart the VM"
    )


def test_null_placeholder_is_none():
    item = launcher_pod()
    compute_of(item)["resources"] = {"limits": {RESOURCE: None}, "requests": {RESOURCE: None}}
    assert refusal(item)[0] is Reason.PLACEHOLDER_MISMATCH


@pytest.mark.parametrize("amount", ["1", 1, "1000m", "1e0"])
def test_placeholder_may_be_spelled_in_any_way(amount: object):
    item = launcher_pod()
    for side in ("limits", "requests"):
        compute_of(item)["resources"][side][RESOURCE] = amount
    assert RESOURCE not in json.dumps(injected(item)["spec"]["containers"])


def test_placeholder_in_append_mode_is_denied():
    reason, text = refusal(launcher_pod(), config=APPEND)
    assert reason is Reason.PLACEHOLDER_MISMATCH
    assert text.startswith("the pod asks for 1 placeholder devices, expected are 0 (gpu0)")


def test_append_mode_adds_the_memory_that_kubevirt_would_and_warns_of_memlock():
    item = launcher_pod(placeholders=None)
    decision = decide(create(item), APPEND)
    after = patched(item, decision)
    assert without_injection(after, item, mode=APPEND.mode) == item
    assert compute_of(after)["resources"]["requests"]["memory"] == "10532Mi"
    [warning] = decision.warnings
    assert "memlock must come from reservedOverhead or the node" in warning


@pytest.mark.parametrize("memory", [None, "much", ["1Gi"]])
def test_append_mode_leaves_a_malformed_memory_to_the_api_server(memory: object):
    item = launcher_pod(placeholders=None)
    compute_of(item)["resources"]["requests"]["memory"] = memory
    assert compute_of(injected(item, APPEND))["resources"]["requests"]["memory"] == memory


# Second passes.


def test_wh01_second_pass_adds_nothing():
    decision = decide(create(injected(launcher_pod())), PLACEHOLDER)
    assert (decision.allowed, decision.reason, tuple(decision.patch)) == (True, Reason.ALREADY_INJECTED, ())


def test_second_pass_after_other_webhooks_adds_nothing():
    item = injected(launcher_pod())
    item["spec"]["initContainers"].insert(0, {"name": "istio-init"})
    item["spec"]["containers"].insert(0, {"name": "istio-proxy"})
    item["spec"]["volumes"].insert(0, {"name": "istio-data", "emptyDir": {}})
    assert decide(create(item), PLACEHOLDER).reason is Reason.ALREADY_INJECTED


# Words of the tenant: annotations, labels and names of a VM reach the pod.

MARKERS = [
    "",
    "{}",
    "[]",
    "x",
    '{"mode": "skipped"}',
    '{"mode": "provisioning"}',
    '{"mode": "append"}',
    '{"version": "0.1.0", "mode": "placeholder", "devices": ["gpu0"]}',
]
forged = pytest.mark.parametrize("text", MARKERS)


@forged
def test_forged_marker_does_not_keep_the_devices_away(text: str):
    item = launcher_pod()
    item["metadata"]["annotations"][INJECTED] = text
    after = injected(item)
    assert marker_of(after) == {"version": "0.1.0", "mode": "placeholder", "devices": ["gpu0"]}
    assert hook_count(after) == 1
    assert sidecar_of(after)["resources"]["claims"] == [{"name": "dravirt-gpu0"}]


@forged
def test_forged_marker_lets_no_pod_pass_without_placeholder(text: str):
    item = launcher_pod(placeholders=None)
    item["metadata"]["annotations"][INJECTED] = text
    assert refusal(item)[0] is Reason.PLACEHOLDER_MISMATCH
    assert not validation.decide(create(item), PLACEHOLDER).allowed


@forged
def test_forged_marker_is_no_injection_in_append_mode(text: str):
    item = launcher_pod(placeholders=None)
    item["metadata"]["annotations"][INJECTED] = text
    assert hook_count(injected(item, APPEND)) == 1


@forged
def test_forged_provisioning_annotation_makes_no_provisioning_pod(text: str):
    """Such a pod would start without sidecar; what runs virt-launcher is a launcher."""
    item = launcher_pod()
    item["metadata"]["annotations"] |= {PROVISIONING: "true", INJECTED: text}
    assert hook_count(injected(item)) == 1
    bare = launcher_pod(placeholders=None)
    bare["metadata"]["annotations"] |= {PROVISIONING: "true", INJECTED: text}
    assert refusal(bare)[0] is Reason.PLACEHOLDER_MISMATCH
    assert not validation.decide(create(bare), PLACEHOLDER).allowed


def provisioning_pod(devices: str = "a100-1-10c") -> dict:
    item = launcher_pod(devices)
    item["metadata"]["annotations"][PROVISIONING] = "true"
    compute_of(item)["command"] = ["/bin/bash", "-c", "echo", "bound PVCs"]
    return item


@forged
def test_forged_marker_keeps_no_claims_from_a_provisioning_pod(text: str):
    item = provisioning_pod()
    item["metadata"]["annotations"][INJECTED] = text
    for side in ("limits", "requests"):
        del compute_of(item)["resources"][side][RESOURCE]
    decision = decide(create(item), PLACEHOLDER)
    assert decision.reason is Reason.PROVISIONING
    assert patched(item, decision)["spec"]["resourceClaims"] == [
        {"name": "dravirt-gpu0", "resourceClaimTemplateName": "a100-1-10c"}
    ]


def test_provisioning_pod_with_a_claim_of_our_name_is_denied():
    item = provisioning_pod()
    item["spec"]["resourceClaims"] = [{"name": "dravirt-gpu0", "resourceClaimName": "mine"}]
    assert refusal(item) == (
        Reason.NAME_CONFLICT,
        "spec.resourceClaims[0]: 'dravirt-gpu0' is a name that dravirt needs: rename it in the VM",
    )


@forged
def test_forged_marker_and_claims_are_no_injection_of_a_provisioning_pod(text: str):
    """Only a pod that is just as dravirt leaves it, without the placeholder, counts as done."""
    item = provisioning_pod()
    item["spec"]["resourceClaims"] = [{"name": "dravirt-gpu0", "resourceClaimTemplateName": "a100-1-10c"}]
    item["metadata"]["annotations"][INJECTED] = text
    assert refusal(item)[0] is Reason.NAME_CONFLICT
    for side in ("limits", "requests"):
        del compute_of(item)["resources"][side][RESOURCE]
    done = decide(create(item), PLACEHOLDER).allowed
    assert done is (text == '{"mode": "provisioning"}')


def test_placeholder_that_came_back_after_an_injection_is_denied():
    item = injected(launcher_pod())
    compute_of(item)["resources"]["limits"][RESOURCE] = "1"
    assert refusal(item)[0] is Reason.NAME_CONFLICT
    assert not validation.decide(create(item), PLACEHOLDER).allowed


PVC = {"persistentVolumeClaim": {"claimName": "mine"}}
TAKEN = {
    "state": ("volumes", {"name": "dravirt-state", **PVC}, "spec.volumes[1]", "dravirt-state"),
    "state, emptyDir": ("volumes", {"name": "dravirt-state", "emptyDir": {}}, "spec.volumes[1]", "dravirt-state"),
    "token": ("volumes", {"name": "dravirt-token", **PVC}, "spec.volumes[1]", "dravirt-token"),
    "sockets": ("volumes", {"name": "hook-sidecar-sockets", **PVC}, "spec.volumes[1]", "hook-sidecar-sockets"),
    "claim": (
        "resourceClaims",
        {"name": "dravirt-gpu0", "resourceClaimName": "mine"},
        "spec.resourceClaims[0]",
        "dravirt-gpu0",
    ),
    "claim, the same": (
        "resourceClaims",
        {"name": "dravirt-gpu0", "resourceClaimTemplateName": "a100-1-10c"},
        "spec.resourceClaims[0]",
        "dravirt-gpu0",
    ),
    "container": ("containers", {"name": "dravirt-hook"}, "spec.containers[1]", "dravirt-hook"),
    "init container": ("initContainers", {"name": "dravirt-hook"}, "spec.initContainers[0]", "dravirt-hook"),
}


@pytest.mark.parametrize("config", [PLACEHOLDER, APPEND], ids=lambda config: str(config.mode))
@pytest.mark.parametrize(("kind", "entry", "field", "name"), TAKEN.values(), ids=TAKEN)
def test_name_that_is_taken_is_denied(kind: str, entry: dict, field: str, name: str, config: Config):
    item = launcher_pod(placeholders=1 if config is PLACEHOLDER else None)
    item["spec"].setdefault(kind, []).append(entry)
    assert refusal(item, config=config) == (
        Reason.NAME_CONFLICT,
        f"{field}: {name!r} is a name that dravirt needs: rename it in the VM",
    )


NATIVE = [
    ([{"name": "n", "resourceClaimName": "mine"}], 0),
    ([{"name": "t", "resourceClaimTemplateName": "mine"}, {"name": "dravirt-x", "resourceClaimName": "mine"}], 1),
]


@pytest.mark.parametrize("ephemeral", [False, True], ids=["launcher", "provisioning"])
@pytest.mark.parametrize(("present", "index"), NATIVE, ids=["by its name", "by a name such as ours"])
def test_claim_that_the_vm_names_itself_is_denied_since_the_pod_would_never_be_scheduled(
    present: list, index: int, ephemeral: bool
):
    direct = json.dumps([{"name": "gpu0", "resourceClaimName": "mine"}])
    item = provisioning_pod(direct) if ephemeral else launcher_pod(direct)
    item["spec"]["resourceClaims"] = present
    reason, text = refusal(item)
    assert reason is Reason.CLAIM_TWICE
    assert text.startswith(f"spec.resourceClaims[{index}].resourceClaimName: ResourceClaim 'mine' is asked for by the")


def test_other_claims_of_the_vm_are_left_beside_ours():
    item = launcher_pod(json.dumps([{"name": "gpu0", "resourceClaimName": "mine"}]))
    native = [{"name": "n", "resourceClaimName": "other"}, {"name": "t", "resourceClaimTemplateName": "mine"}]
    item["spec"]["resourceClaims"] = list(native)
    after = injected(item)
    assert after["spec"]["resourceClaims"] == [*native, {"name": "dravirt-gpu0", "resourceClaimName": "mine"}]


def test_forged_marker_frees_no_name():
    item = launcher_pod()
    item["spec"]["volumes"].append({"name": "dravirt-state", **PVC})
    item["metadata"]["annotations"][INJECTED] = MARKERS[-1]
    assert refusal(item)[0] is Reason.NAME_CONFLICT


def test_sidecar_of_another_is_not_accepted_for_ours():
    """No VM owner names init containers; should another webhook do it, the last look misses our claims."""
    item = launcher_pod(placeholders=None)
    item["spec"]["initContainers"] = [{"name": "dravirt-hook", "image": "mine"}]
    item["metadata"]["annotations"][INJECTED] = MARKERS[-1]
    assert decide(create(item), PLACEHOLDER).reason is Reason.ALREADY_INJECTED
    assert validation.decide(create(item), PLACEHOLDER).reason is Reason.CLAIMS_DROPPED


@pytest.mark.parametrize(
    ("mount", "field"),
    [
        ({"name": "hook-sidecar-sockets", "mountPath": "/elsewhere"}, "spec.containers[0].volumeMounts[1]"),
        ({"name": "private", "mountPath": "/var/run/kubevirt-hooks"}, "spec.containers[0].volumeMounts[1]"),
    ],
    ids=["sockets elsewhere", "other volume in their place"],
)
def test_sockets_that_are_not_kubevirts_are_denied(mount: dict, field: str):
    item = launcher_pod()
    compute_of(item)["volumeMounts"].append(mount)
    reason, text = refusal(item)
    assert reason is Reason.NAME_CONFLICT
    assert text == f"{field}: 'hook-sidecar-sockets' is a name that dravirt needs: rename it in the VM"


def test_environment_of_ours_is_not_set_twice():
    item = launcher_pod()
    compute_of(item)["env"].append({"name": "MDEV_PCI_RESOURCE_DRAVIRT_IO_GPU", "value": "mine"})
    reason, text = refusal(item)
    assert reason is Reason.NAME_CONFLICT
    assert text.startswith("spec.containers[0].env[1]: 'MDEV_PCI_RESOURCE_DRAVIRT_IO_GPU' is a name that dravirt needs")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("command", None),
        ("command", "--hook-sidecars 0"),
        ("command", [None, 1, {}]),
        ("command", ["v", "--hook-sidecars", "many"]),
        ("command", ["v", "--hook-sidecars", "9" * 5000]),
        ("args", {"--hook-sidecars": 0}),
    ],
    ids=["null", "text", "no texts", "word", "huge", "mapping"],
)
def test_launcher_without_a_hook_flag_is_denied(field: str, value: object):
    item = launcher_pod()
    compute_of(item)["command"] = ["v"]
    compute_of(item)[field] = value
    reason, text = refusal(item)
    assert reason is Reason.NO_HOOK_FLAG
    assert text.startswith("spec.containers[0]: has no --hook-sidecars with a number in command or args: is it a virt-")


def test_launcher_without_compute_is_denied():
    item = launcher_pod(placeholders=None)
    compute_of(item)["name"] = "other"
    reason, text = refusal(item, config=APPEND)
    assert reason is Reason.NO_COMPUTE
    assert text == "spec.containers: has no container named compute: is it a virt-launcher that dravirt knows?"


# Migration targets.


def target(**kwargs: object) -> dict:
    item = launcher_pod(**kwargs)
    item["metadata"]["labels"]["kubevirt.io/migrationJobUID"] = "b3a1cf6e"
    return item


@pytest.mark.parametrize("placeholders", [None, "2", "1.5"])
def test_target_of_a_vm_that_started_otherwise_is_left_alone(placeholders: object):
    item = target(placeholders=placeholders)
    decision = decide(create(item), PLACEHOLDER)
    assert (decision.allowed, decision.reason, len(decision.warnings)) == (True, Reason.SKIPPED, 1)
    after = patched(item, decision)
    assert marker_of(after)["mode"] == "skipped"
    del after["metadata"]["annotations"][INJECTED]
    assert after == item


@forged
def test_forged_marker_does_not_keep_a_target_from_its_devices(text: str):
    item = target()
    item["metadata"]["annotations"][INJECTED] = text
    assert hook_count(injected(item)) == 1


@forged
def test_forged_marker_on_a_skipped_target_is_made_right(text: str):
    item = target(placeholders=None)
    item["metadata"]["annotations"][INJECTED] = text
    decision = decide(create(item), PLACEHOLDER)
    assert decision.reason is Reason.SKIPPED
    after = patched(item, decision)
    assert marker_of(after)["mode"] == "skipped"
    assert not decide(create(after), PLACEHOLDER).patch
    assert validation.decide(create(after), PLACEHOLDER).reason is Reason.SKIPPED


# Shapes of the annotation.


def test_requests_of_one_claim_share_a_pod_claim():
    entries = [
        {"name": "a", "resourceClaimName": "shared", "request": "r0"},
        {"name": "b", "resourceClaimTemplateName": "t"},
        {"name": "c", "resourceClaimName": "shared", "request": "r1/sub", "count": 2},
    ]
    after = injected(launcher_pod(json.dumps(entries), placeholders=4))
    assert after["spec"]["resourceClaims"] == [
        {"name": "dravirt-a", "resourceClaimName": "shared"},
        {"name": "dravirt-b", "resourceClaimTemplateName": "t"},
    ]
    references = [
        {"name": "dravirt-a", "request": "r0"},
        {"name": "dravirt-a", "request": "r1"},
        {"name": "dravirt-b"},
    ]
    assert compute_of(after)["resources"]["claims"] == references
    assert sidecar_of(after)["resources"]["claims"] == references
    assert marker_of(after)["devices"] == ["a", "b", "c-0", "c-1"]


@pytest.mark.parametrize(
    ("field", "value"), [("resourceClaimTemplateName", "t"), ("resourceClaimName", "c")], ids=["template", "direct"]
)
def test_dr03_pod_claim_is_flat_with_one_of_both_fields(field: str, value: str):
    after = injected(launcher_pod(json.dumps([{"name": "gpu0", field: value}])))
    assert after["spec"]["resourceClaims"] == [{"name": "dravirt-gpu0", field: value}]


def test_most_devices_fit():
    after = injected(launcher_pod("- {name: g, resourceClaimTemplateName: t, count: 32}", placeholders=32))
    [env] = [entry for entry in compute_of(after)["env"] if entry["name"] == "MDEV_PCI_RESOURCE_DRAVIRT_IO_GPU"]
    uuids = env["value"].split(",")
    assert len(set(uuids)) == 32
    assert uuids[31] == "00000000-0000-4000-8000-00000000001f"


# Configuration.


def test_pull_secrets_of_the_configuration_are_added_once():
    config = Config(sidecar=SidecarConfig(image_pull_secrets=("a", "b")))
    item = launcher_pod()
    assert injected(item, config)["spec"]["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}]
    item["spec"]["imagePullSecrets"] = [{"name": "own"}, {"name": "b"}]
    assert injected(item, config)["spec"]["imagePullSecrets"] == [{"name": "own"}, {"name": "b"}, {"name": "a"}]


def test_image_and_resources_are_those_of_the_configuration():
    config = Config(
        sidecar=SidecarConfig(image="registry.example/hook@sha256:0", resources=Resources("1m", "2m", "3M"))
    )
    sidecar = sidecar_of(injected(launcher_pod(), config))
    assert sidecar["image"] == "registry.example/hook@sha256:0"
    assert sidecar["resources"]["requests"] == {"cpu": "1m", "memory": "3M"}


def test_intent_carries_what_is_configured_for_drivers():
    names = AttributeNames(mdev_uuid=("uuid",), pci_address=("bdf",), profile=("type",))
    config = Config(
        attributes={"gpu.example.com": names},
        environment={"gpu.example.com": ("GPU_UUID",)},
        allocation_service=ServiceAddress("https://dravirt-webhook", "PEM", "dravirt-webhook.dravirt-system.svc", "/t"),
    )
    intent = intent_of(injected(launcher_pod(), config))
    assert intent["attributes"] == {
        "gpu.example.com": {"mdevUUID": ["uuid"], "pciAddress": ["bdf"], "profile": ["type"]}
    }
    assert intent["environment"] == {"gpu.example.com": ["GPU_UUID"]}
    assert intent["service"]["url"] == "https://dravirt-webhook"
