"""Public reports about hook sidecars and admission webhooks, by their ids: the input, and what is right for dravirt.

In the inputs an example's opt-in annotation stands for ours, and the pods have no owner; both are put right here.
"""

import json
from pathlib import Path

import pytest
from support.admission import (
    APPEND,
    CONTROLLER,
    DEVICES,
    INJECTED,
    PLACEHOLDER,
    RESOURCE,
    compute_of,
    create,
    hook_count,
    launcher_pod,
    patched,
    sidecar_of,
    without_injection,
)

from dra.reasons import Reason
from webhook import pod, validation
from webhook.decision import AdmissionRequest

OPT_IN = "gpu-hook.example.test/attach"
SOCKETS = {"name": "hook-sidecar-sockets", "mountPath": "/var/run/kubevirt-hooks"}


def adapted(item: dict) -> dict:
    """Return the pod with our annotation, the owner and the placeholder that KubeVirt would have given it."""
    item["metadata"]["annotations"][DEVICES] = item["metadata"]["annotations"].pop(OPT_IN)
    item["metadata"]["ownerReferences"] = launcher_pod()["metadata"]["ownerReferences"]
    resources = compute_of(item).setdefault("resources", {})
    for side in ("limits", "requests"):
        resources.setdefault(side, {})[RESOURCE] = "1"
    return item


def injected(item: dict) -> dict:
    decision = pod.decide(create(item), PLACEHOLDER)
    assert decision.reason is Reason.INJECTED, decision.message
    after = patched(item, decision)
    assert without_injection(after, item) == item
    assert not pod.decide(create(after), PLACEHOLDER).patch
    assert validation.decide(create(after), PLACEHOLDER).allowed
    return after


def reported(folder: Path, name: str) -> dict:
    return adapted(json.loads((folder / name).read_bytes()))


def reviewed(folder: Path, name: str) -> dict:
    return json.loads((folder / name).read_bytes())["request"]


def test_hs11_pod_without_hooks(bug_inputs: Path):
    after = injected(reported(bug_inputs, "hs11-no-hooks.pod.json"))
    assert hook_count(after) == 1
    assert compute_of(after)["args"] == ["--name", "vm-a", "--hook-sidecars", "1", "--run-as-nonroot"]
    assert [v["name"] for v in after["spec"]["volumes"]].count("hook-sidecar-sockets") == 1
    assert compute_of(after)["volumeMounts"].count(SOCKETS) == 1


def test_hs11_pod_with_one_hook_and_the_flag_in_command(bug_inputs: Path):
    after = injected(reported(bug_inputs, "hs11-one-hook-old-command.pod.json"))
    assert compute_of(after)["command"][-3:] == ["--hook-sidecars", "2", "--run-as-nonroot"]
    assert "args" not in compute_of(after)
    assert [v["name"] for v in after["spec"]["volumes"]].count("hook-sidecar-sockets") == 1
    assert compute_of(after)["volumeMounts"].count(SOCKETS) == 1
    assert SOCKETS in sidecar_of(after)["volumeMounts"]


def test_hs11_pod_with_two_hooks_and_the_flag_in_args(bug_inputs: Path):
    """The sidecar is an init container and mounts the sockets whole, since it serves both layouts of them."""
    after = injected(reported(bug_inputs, "hs11-two-hooks-args.pod.json"))
    assert compute_of(after)["args"][2:4] == ["--hook-sidecars", "3"]
    assert [c["name"] for c in after["spec"]["containers"]] == ["compute", "hook-sidecar-0", "hook-sidecar-1"]
    assert [v["name"] for v in after["spec"]["volumes"]].count("hook-sidecar-sockets") == 1
    assert compute_of(after)["volumeMounts"].count(SOCKETS) == 1
    assert SOCKETS in sidecar_of(after)["volumeMounts"]


def test_hs11_flag_and_number_in_one_item():
    item = launcher_pod()
    compute_of(item)["command"] = ["/usr/bin/virt-launcher-monitor", "--hook-sidecars=2", "--run-as-nonroot"]
    after = patched(item, pod.decide(create(item), PLACEHOLDER))
    assert compute_of(after)["command"] == ["/usr/bin/virt-launcher-monitor", "--hook-sidecars=3", "--run-as-nonroot"]


@pytest.mark.parametrize(
    ("limits", "has_cpu_limit"), [({"memory": "2Gi"}, False), ({"cpu": "2", "memory": "2Gi"}, True)]
)
def test_hs13_pod_fits_into_a_quota(limits: dict, has_cpu_limit: bool):
    """A quota on limits.cpu lets in only a compute with a CPU limit, so the sidecar has one beside such a compute."""
    item = launcher_pod()
    compute_of(item)["resources"]["limits"] |= limits
    resources = sidecar_of(injected(item))["resources"]
    assert set(resources["requests"]) == {"cpu", "memory"}
    assert set(resources["limits"]) == ({"cpu", "memory"} if has_cpu_limit else {"memory"})


def test_hs15_pod_security_restricted_lets_the_pod_in():
    after = injected(launcher_pod())
    context = sidecar_of(after)["securityContext"]
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert (context["runAsNonRoot"], context["runAsUser"]) == (True, 107)
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not [volume for volume in after["spec"]["volumes"] if "hostPath" in volume]


def test_hs15_sidecar_is_restricted_beside_a_root_launcher_too():
    item = launcher_pod()
    compute_of(item)["securityContext"] = {"runAsUser": 0, "runAsNonRoot": False}
    item["spec"]["securityContext"] = {"runAsUser": 0}
    assert sidecar_of(injected(item))["securityContext"]["runAsUser"] == 107


def test_hs17_pod_without_a_service_account_token_stays_without():
    item = launcher_pod()
    assert item["spec"]["automountServiceAccountToken"] is False
    after = injected(item)
    assert after["spec"]["automountServiceAccountToken"] is False
    assert "serviceAccountToken" not in json.dumps(after)


@pytest.mark.parametrize(
    "names", [["compute", "guest-console-log", "istio-proxy"], ["istio-proxy", "compute"], ["a", "b", "compute", "c"]]
)
def test_hs18_compute_is_found_by_name_and_the_order_stays(names: list):
    """The sidecar is the first init container rather than the last container: it starts before all others."""
    item = launcher_pod()
    compute = compute_of(item)
    item["spec"]["containers"] = [compute if name == "compute" else {"name": name} for name in names]
    item["spec"]["initContainers"] = [{"name": "istio-init"}]
    after = injected(item)
    assert [each["name"] for each in after["spec"]["containers"]] == names
    assert [each["name"] for each in after["spec"]["initContainers"]] == ["dravirt-hook", "istio-init"]
    assert hook_count(after) == 1
    assert [each for each in after["spec"]["containers"] if "claims" in each.get("resources", {})] == [
        compute_of(after)
    ]


@pytest.mark.parametrize("key", [DEVICES, INJECTED])
def test_hs25_annotations_are_none_that_kubevirt_keeps_from_the_pod(key: str):
    """Source: KubeVirt pkg/virt-controller/services/template.go, filterVMIAnnotationsForPod."""
    kept_back = (
        "kubectl.kubernetes.io",
        "kubevirt.io/storage-observed-api-version",
        "kubevirt.io/latest-observed-api-version",
    )
    assert not key.startswith(kept_back)


def test_wh05_namespace_and_name_are_in_the_request_only(bug_inputs: Path):
    review = reviewed(bug_inputs, "wh05-generatename-no-namespace.admissionreview.json")
    item = adapted(review["object"])
    assert not {"name", "namespace"} & set(item["metadata"])
    request = AdmissionRequest(
        uid=review["uid"],
        kind="Pod",
        operation=review["operation"],
        namespace=review["namespace"],
        name=review.get("name", ""),
        username=review["userInfo"]["username"],
        object=item,
    )
    assert request.username == CONTROLLER
    decision = pod.decide(request, PLACEHOLDER)
    assert (decision.allowed, decision.reason) == (True, Reason.INJECTED)
    assert not {"name", "namespace"} & set(patched(item, decision)["metadata"])


def test_wh12_bare_pod_gets_each_missing_parent_once(bug_inputs: Path):
    item = adapted(reviewed(bug_inputs, "wh12-bare-pod.admissionreview.json")["object"])
    after = injected(item)
    reference = [{"name": "dravirt-gpu0"}]
    assert after["spec"]["resourceClaims"] == [{"name": "dravirt-gpu0", "resourceClaimTemplateName": "gpu-template"}]
    assert compute_of(after)["resources"]["claims"] == sidecar_of(after)["resources"]["claims"] == reference
    assert [volume["name"] for volume in after["spec"]["volumes"]] == ["hook-sidecar-sockets", "dravirt-state"]
    assert compute_of(after)["volumeMounts"] == [SOCKETS]
    paths = [operation["path"] for operation in pod.decide(create(item), PLACEHOLDER).patch]
    assert len(set(paths)) == len(paths)


def test_wh12_pod_without_any_resources_is_injected_in_append_mode(bug_inputs: Path):
    item = adapted(reviewed(bug_inputs, "wh12-bare-pod.admissionreview.json")["object"])
    del compute_of(item)["resources"]
    after = patched(item, pod.decide(create(item), APPEND))
    assert without_injection(after, item, mode=APPEND.mode) == item
    assert compute_of(after)["resources"] == {"claims": [{"name": "dravirt-gpu0"}]}
