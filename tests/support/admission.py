"""Admission in tests: requests as the API server makes them, patches applied as it applies them.

What is computed here about a pod (QoS class, hook count, what an injection is made of) is written anew from
Kubernetes' and KubeVirt's rules, so that a test compares two opinions.
"""

import copy
import hashlib
import json
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonpatch

from dra.intent import Mode
from webhook.config import Config
from webhook.decision import AdmissionRequest, Decision

Raw = dict[str, Any]

CONTROLLER = "system:serviceaccount:kubevirt:kubevirt-controller"
OWNER = "vm-owner"
PLACEHOLDER = Config()
APPEND = Config(mode=Mode.APPEND)

DEVICES = "dravirt.io/devices"
COPIED = "dravirt.io/copied"
INJECTED = "dravirt.io/injected"
RESOURCE = "dravirt.io/gpu"
ENV = "MDEV_PCI_RESOURCE_DRAVIRT_IO_GPU"
GIB = 2**30


def create(item: Raw, *, username: str = CONTROLLER) -> AdmissionRequest:
    """Return the request to create `item`."""
    return _request("CREATE", item, None, username)


def update(old: Raw, item: Raw, *, username: str = OWNER) -> AdmissionRequest:
    """Return the request to make `item` of `old`."""
    return _request("UPDATE", item, old, username)


def _request(operation: str, item: Raw, old: Raw | None, username: str) -> AdmissionRequest:
    return AdmissionRequest(
        uid="705ab4f5-6393-11e8-b7cc-42010a800002",
        kind=str(item.get("kind")),
        operation=operation,
        namespace="vms",
        name="",
        username=username,
        object=item,
        old_object=old,
    )


def posted(file: Path) -> AdmissionRequest:
    """Return the request in an AdmissionReview as an API server posted it."""
    request = json.loads(file.read_bytes())["request"]
    return AdmissionRequest(
        uid=request["uid"],
        kind=request["kind"]["kind"],
        operation=request["operation"],
        namespace=request["namespace"],
        name=request.get("name", ""),
        username=request["userInfo"]["username"],
        object=request["object"],
        old_object=request.get("oldObject"),
    )


def patched(item: Raw, decision: Decision) -> Raw:
    """Return `item` with the patch of `decision`, each operation applied strictly by RFC 6902.

    The RFC lets `add` replace a member that is there; dravirt may do so only with its own marks and with nothing.
    """
    assert decision.allowed, decision.message
    operations = list(decision.patch)
    result = copy.deepcopy(item)
    for operation in operations:
        if operation["op"] == "add":
            _assert_replaces_nothing(result, operation["path"])
        result = jsonpatch.JsonPatch([operation]).apply(result)
    return result


def _assert_replaces_nothing(item: Raw, path: str) -> None:
    parent, key = jsonpatch.JsonPointer(path).to_last(item)
    if isinstance(parent, dict) and not str(key).startswith("dravirt.io/"):
        assert not parent.get(key), f"add {path} replaces {parent[key]!r}"


def mark(value: str) -> str:
    """Return what dravirt notes on a VM about the value that it copied."""
    return hashlib.sha256(value.encode()).hexdigest()


def compute_of(pod: Raw) -> Raw:
    """Return the container named compute."""
    return next(container for container in pod["spec"]["containers"] if container["name"] == "compute")


def sidecar_of(pod: Raw) -> Raw:
    """Return the init container named dravirt-hook."""
    return next(container for container in pod["spec"]["initContainers"] if container["name"] == "dravirt-hook")


def intent_of(pod: Raw) -> Raw:
    """Return the intent that the sidecar reads after the kubelet has expanded its environment."""
    [text] = [entry["value"] for entry in sidecar_of(pod)["env"] if entry["name"] == "DRAVIRT_INTENT"]
    return json.loads(text.replace("$$", "$"))


def marker_of(pod: Raw) -> Raw:
    """Return what the pod's marker says."""
    return json.loads(pod["metadata"]["annotations"][INJECTED])


def hook_count(pod: Raw) -> int:
    """Return for how many hook sockets virt-launcher waits."""
    [count] = [int(items[index]) for items, index in _hook_counts(compute_of(pod))]
    return count


def _hook_counts(compute: Raw) -> Iterator[tuple[list[str], int]]:
    """Yield where the number of the flag stands, in the form that KubeVirt writes: flag and number are two items."""
    for items in (compute.get("command") or [], compute.get("args") or []):
        for index, (item, following) in enumerate(pairwise(items)):
            if item == "--hook-sidecars" and following.isdigit():
                yield items, index + 1


def qos_class(pod: Raw) -> str:
    """Return the pod's QoS class. Source: k8s.io/kubernetes/pkg/apis/core/v1/helper/qos, ComputePodQOS."""
    sums: dict[str, dict[str, Decimal]] = {"requests": {}, "limits": {}}
    guaranteed = True
    for container in pod["spec"]["containers"] + pod["spec"].get("initContainers", []):
        resources = container.get("resources", {})
        limits = resources.get("limits", {})
        requests = {**limits, **resources.get("requests", {})}  # as the API server's defaults fill them in
        for side, amounts in (("requests", requests), ("limits", limits)):
            for name in ("cpu", "memory"):
                if quantity(amounts.get(name, "0")):
                    sums[side][name] = sums[side].get(name, Decimal(0)) + quantity(amounts[name])
        guaranteed &= all(quantity(limits.get(name, "0")) for name in ("cpu", "memory"))
    if not sums["requests"] and not sums["limits"]:
        return "BestEffort"
    return "Guaranteed" if guaranteed and sums["requests"] == sums["limits"] else "Burstable"


def quantity(text: str) -> Decimal:
    """Return the value of a quantity as KubeVirt writes them."""
    units = {"m": "0.001", "k": "1e3", "M": "1e6", "G": "1e9", "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
    unit = next((unit for unit in sorted(units, key=len, reverse=True) if text.endswith(unit)), "")
    return Decimal(text.removesuffix(unit)) * Decimal(units.get(unit, 1))


def without_injection(pod: Raw, original: Raw, *, mode: Mode = Mode.PLACEHOLDER) -> Raw:
    """Return `pod` less what an injection puts in, and with the placeholder that it takes out of `original`.

    What remains must be equal to `original`: nothing else may differ, in content or in order.
    """
    rest = copy.deepcopy(pod)
    spec, compute, before = rest["spec"], compute_of(rest), compute_of(original)
    assert spec["initContainers"].pop(0)["name"] == "dravirt-hook"
    spec["resourceClaims"] = [entry for entry in spec["resourceClaims"] if not _is_ours(entry)]
    ours = {"dravirt-state"} | ({"hook-sidecar-sockets"} - _names(original["spec"].get("volumes")))
    spec["volumes"] = [volume for volume in spec["volumes"] if volume.get("name") not in ours]
    claims = compute["resources"]["claims"]
    compute["resources"]["claims"] = [entry for entry in claims if not _is_ours(entry)]
    compute["env"] = [entry for entry in compute.get("env") or [] if entry.get("name") != ENV]
    ours = {"hook-sidecar-sockets"} - _names(before.get("volumeMounts"))
    compute["volumeMounts"] = [mount for mount in compute["volumeMounts"] if mount.get("name") not in ours]
    _restore_resources(compute["resources"], before.get("resources") or {}, mode)
    items, index = next(_hook_counts(compute))
    items[index] = str(int(items[index]) - 1)
    del rest["metadata"]["annotations"][INJECTED], rest["metadata"]["labels"][INJECTED]
    _drop_made(spec, original["spec"], "initContainers", "resourceClaims", "volumes")
    _drop_made(compute["resources"], before.get("resources") or {}, "claims")
    _drop_made(compute, before, "env", "volumeMounts", "resources")
    return rest


def _names(items: list[Raw] | None) -> set[str | None]:
    return {item.get("name") for item in items or []}


def _is_ours(entry: Raw) -> bool:
    return str(entry.get("name")).startswith("dravirt-")


def _restore_resources(resources: Raw, before: Raw, mode: Mode) -> None:
    for side in ("limits", "requests"):
        amounts = before.get(side) or {}
        if mode is Mode.PLACEHOLDER and RESOURCE in amounts:
            assert RESOURCE not in resources[side]
            resources[side][RESOURCE] = amounts[RESOURCE]
        if mode is Mode.APPEND and (amounts.get("memory") or "")[:1].isdigit():  # (what is no quantity stays)
            assert quantity(resources[side]["memory"]) == quantity(amounts["memory"]) + GIB
            resources[side]["memory"] = amounts["memory"]


def _drop_made(item: Raw, original: Raw, *keys: str) -> None:
    """Put lists and mappings that had to be made first, and are empty again, back to what they were: absent or null."""
    for key in keys:
        if not original.get(key) and not item.get(key):
            item.pop(key, None)
            item.update({key: original[key]} if key in original else {})


def launcher_pod(devices: str | None = "a100-1-10c", *, placeholders: str | int | None = 1) -> Raw:
    """Return a launcher pod with the parts that admission looks at, as KubeVirt 1.9 renders it."""
    asked = {} if placeholders is None else {RESOURCE: str(placeholders)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "virt-launcher-vm-a-",
            "labels": {"kubevirt.io": "virt-launcher", "vm.kubevirt.io/name": "vm-a"},
            "annotations": {"kubevirt.io/domain": "vm-a", **({} if devices is None else {DEVICES: devices})},
            "ownerReferences": [
                {
                    "apiVersion": "kubevirt.io/v1",
                    "kind": "VirtualMachineInstance",
                    "name": "vm-a",
                    "uid": "d7d324f8-53d3-5e4a-b39e-3f6ba70e5f6a",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "automountServiceAccountToken": False,
            "restartPolicy": "Never",
            "volumes": [{"name": "private", "emptyDir": {}}],
            "containers": [
                {
                    "name": "compute",
                    "image": "registry.example/virt-launcher:v1",
                    "command": ["/usr/bin/virt-launcher-monitor", "--name", "vm-a", "--hook-sidecars", "0"],
                    "env": [{"name": "XDG_RUNTIME_DIR", "value": "/var/run"}],
                    "resources": {
                        "limits": {"devices.kubevirt.io/kvm": "1", **asked},
                        "requests": {"cpu": "400m", "memory": "9508Mi", **asked},
                    },
                    "volumeMounts": [{"name": "private", "mountPath": "/var/run/kubevirt-private"}],
                }
            ],
        },
    }


def vmi(devices: object = "a100-1-10c", **domain_devices: Any) -> Raw:
    """Return a VMI with the annotation and these `spec.domain.devices`."""
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": "vm-a", "annotations": {} if devices is None else {DEVICES: devices}},
        "spec": {"domain": {"devices": domain_devices}},
    }


def vm(metadata: object = None, template: object = None, copied: object = None, **domain_devices: Any) -> Raw:
    """Return a VM with the annotation on its metadata and on its template, and with the mark of our copy."""
    own = {DEVICES: metadata, COPIED: copied}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": "vm-a", "annotations": {key: value for key, value in own.items() if value is not None}},
        "spec": {
            "runStrategy": "Always",
            "template": {
                "metadata": {"annotations": {} if template is None else {DEVICES: template}},
                "spec": {"domain": {"devices": domain_devices}},
            },
        },
    }
