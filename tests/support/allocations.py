"""Objects of a cluster in which pods of VMs have claims: launcher pods, claims, slices, tokens."""

from typing import Any

Raw = dict[str, Any]

DRIVER = "vgpu.example.com"
NAMESPACE = "team-a"
NODE = "node-7"
AUDIENCE = "dravirt.io"
EXTRA = "authentication.kubernetes.io/"
UUIDS = [f"3f0e2a54-6c1d-4b7a-9f33-{number:012x}" for number in range(16)]


def pod(
    name: str = "vm1",
    *,
    uid: str = "",
    claims: dict[str, str] | None = None,
    templates: dict[str, str | None] | None = None,
    node: str = NODE,
    namespace: str = NAMESPACE,
    phase: str = "Running",
    terminating: bool = False,
) -> Raw:
    """Return an injected launcher pod.

    `claims` are claims named directly, by pod claim; `templates` the generated claims, by pod claim, None where none
    was made yet. Without either it has one generated claim, `<name>-gpu0`.
    """
    claims = claims or {}
    templates = templates if templates is not None else {} if claims else {"dravirt-gpu0": f"{name}-gpu0"}
    entries = [{"name": each, "resourceClaimName": claim} for each, claim in claims.items()]
    entries += [{"name": each, "resourceClaimTemplateName": "vgpu"} for each in templates]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-{name}",
            "labels": {"kubevirt.io": "virt-launcher", "dravirt.io/injected": "true"},
            "annotations": {"dravirt.io/devices": "vgpu"},
            "ownerReferences": [
                {
                    "apiVersion": "kubevirt.io/v1",
                    "kind": "VirtualMachineInstance",
                    "name": name,
                    "uid": f"vmi-{name}",
                    "controller": True,
                }
            ],
            **({"deletionTimestamp": "2026-11-30T12:00:00Z"} if terminating else {}),
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "compute", "image": "launcher"}],
            "initContainers": [
                {
                    "name": "dravirt-hook",
                    "image": "hook",
                    "restartPolicy": "Always",
                    "resources": {"claims": [{"name": each["name"]} for each in entries]},
                }
            ],
            "resourceClaims": entries,
        },
        "status": {
            "phase": phase,
            "resourceClaimStatuses": [
                {"name": each, "resourceClaimName": claim} for each, claim in templates.items() if claim
            ],
        },
    }


def result(device: str = "v0", *, request: str = "vgpu", driver: str = DRIVER, pool: str = NODE, **more: Any) -> Raw:
    """Return a result of an allocation."""
    return {"request": request, "driver": driver, "pool": pool, "device": device, **more}


def claim(
    name: str = "vm1-gpu0",
    *results: Raw,
    owner: Raw | None = None,
    reserved: list[Raw] | None = None,
    devices: list[Raw] | None = None,
    namespace: str = NAMESPACE,
    allocated: bool = True,
) -> Raw:
    """Return a claim that yields `results` (v0 without any), made for the pod `owner`, reserved for `reserved` pods."""
    reserved = reserved if reserved is not None else [owner] if owner else []
    metadata: Raw = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    if owner:
        of = owner["metadata"]
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": of["name"], "uid": of["uid"], "controller": True}
        ]
    status: Raw = {"reservedFor": [consumer(each) for each in reserved]}
    if allocated:
        status["allocation"] = {"devices": {"results": list(results) or [result()]}}
    if devices:
        status["devices"] = devices
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "status": status}


def consumer(of: Raw) -> Raw:
    """Return the reference by which a claim is reserved for a pod."""
    return {"resource": "pods", "name": of["metadata"]["name"], "uid": of["metadata"]["uid"]}


def device(name: str, **attributes: str) -> Raw:
    """Return a device of a slice; `pci` is short for the standard address."""
    names = {"pci": "resource.kubernetes.io/pciBusID"}
    return {"name": name, "attributes": {names.get(key, key): {"string": text} for key, text in attributes.items()}}


def mdevs(count: int, first: int = 0) -> list[Raw]:
    """Return devices v0, v1, … with an mdev UUID each."""
    return [device(f"v{number}", mdevUUID=UUIDS[number]) for number in range(first, first + count)]


def resource_slice(
    name: str = "slice-0",
    devices: list[Raw] | None = None,
    *,
    driver: str = DRIVER,
    pool: str = NODE,
    node: str | None = NODE,
    generation: int = 1,
    count: int = 1,
) -> Raw:
    """Return a slice of a pool, of a node or (None) in the network."""
    where: Raw = {"nodeName": node} if node else {"allNodes": True}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            "devices": mdevs(4) if devices is None else devices,
            **where,
        },
    }


def in_v1beta1(slice_: Raw) -> Raw:
    """Return the slice as v1beta1 writes it."""
    spec = slice_["spec"]
    devices = [{"name": each["name"], "basic": {"attributes": each["attributes"]}} for each in spec["devices"]]
    return {**slice_, "apiVersion": "resource.k8s.io/v1beta1", "spec": {**spec, "devices": devices}}


def review_status(of: Raw, **changes: Any) -> Raw:
    """Return the status of the TokenReview for a token of the pod."""
    metadata = of["metadata"]
    extra = {
        "pod-name": [metadata["name"]],
        "pod-uid": [metadata["uid"]],
        "node-name": [of["spec"]["nodeName"]],
        "node-uid": ["uid-of-the-node"],
        "credential-id": ["JTI=1"],
    }
    user = {
        "username": f"system:serviceaccount:{metadata['namespace']}:default",
        "extra": {EXTRA + key: values for key, values in extra.items()},
    }
    return {"authenticated": True, "audiences": [AUDIENCE], "user": user} | changes
