"""The hook sidecar's container, as it goes into a launcher pod.

A native sidecar: it starts before every other container, so that nothing runs before the devices are known, the kubelet
starts it again after a crash, and ends it with the pod. Pod Security `restricted`, whatever compute runs as.
"""

from pathlib import PurePath
from typing import Any

from dra.contract import (
    INTENT_ENV,
    SIDECAR_CONTAINER,
    SOCKET_DIR,
    SOCKET_NAME,
    SOCKET_VOLUME,
    STATE_DIR,
    STATE_VOLUME,
    TOKEN_AUDIENCE,
    TOKEN_DIR,
    TOKEN_PATH,
    TOKEN_VOLUME,
)
from webhook.config import Resources, SidecarConfig
from webhook.decision import RawObject
from webhook.quantity import same_quantity
from webhook.raw import mapping

QEMU_USER = 107
"""The user compute runs QEMU as; connecting to the socket needs write permission on it."""

_TOKEN_SECONDS = 3600
"""What Kubernetes gives by default; the least is 600."""
_STARTUP_SECONDS = 90
"""Longer than the 30 s in which the sidecar looks for its devices, beside a slow image and a CPU limit."""


def container(
    config: SidecarConfig,
    intent: str,
    claims: list[dict[str, str]],
    *,
    guaranteed: bool,
    limit_cpu: bool,
    with_token: bool = False,
) -> dict[str, Any]:
    """Return the container that carries out `intent` and refers to `claims`; `with_token`: to ask the service with.

    `guaranteed`: the pod's QoS class must stay Guaranteed; `limit_cpu`: compute has a CPU limit, so this gets one too.
    """
    return {
        "name": SIDECAR_CONTAINER,
        "image": config.image,
        "restartPolicy": "Always",
        "env": [
            # The kubelet expands $(NAME) in values; $$ stands for $. Source: k8s.io/api/core/v1, EnvVar.
            {"name": INTENT_ENV, "value": intent.replace("$", "$$")},
            {"name": "DRAVIRT_LOG_LEVEL", "value": config.log_level},
        ],
        "resources": {**_resources(config.resources, guaranteed=guaranteed, limit_cpu=limit_cpu), "claims": claims},
        "volumeMounts": [
            # Mounted whole: the sidecar serves the flat layout (KubeVirt <= 1.5) and the nested one (>= 1.6).
            {"name": SOCKET_VOLUME, "mountPath": SOCKET_DIR},
            {"name": STATE_VOLUME, "mountPath": STATE_DIR},
            *([{"name": TOKEN_VOLUME, "mountPath": TOKEN_DIR, "readOnly": True}] if with_token else []),
        ],
        # A tiny program instead of Python, which takes seconds under a small CPU limit, and no port: with bridge
        # binding the pod's address belongs to the VM.
        "startupProbe": {
            "exec": {"command": ["/usr/bin/test", "-S", f"{SOCKET_DIR}/{SOCKET_NAME}"]},
            "periodSeconds": 1,
            "timeoutSeconds": 5,
            "failureThreshold": _STARTUP_SECONDS,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "runAsUser": QEMU_USER,
            "runAsGroup": QEMU_USER,
            "runAsNonRoot": True,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def token_volume() -> dict[str, Any]:
    """Return the volume with the token that the allocation service knows the pod by.

    It is good for our audience only, not for the API server, and ends with the pod; the kubelet renews it.
    """
    token = {"audience": TOKEN_AUDIENCE, "expirationSeconds": _TOKEN_SECONDS, "path": PurePath(TOKEN_PATH).name}
    return {"name": TOKEN_VOLUME, "projected": {"sources": [{"serviceAccountToken": token}]}}


def _resources(resources: Resources, *, guaranteed: bool, limit_cpu: bool) -> dict[str, Any]:
    """Return requests and limits. A small CPU limit stretches the start, so there is none where compute has none."""
    cpu_request = resources.cpu_limit if guaranteed else resources.cpu_request
    limits = {"memory": resources.memory}
    if guaranteed or limit_cpu:
        limits["cpu"] = resources.cpu_limit
    return {"requests": {"cpu": cpu_request, "memory": resources.memory}, "limits": limits}


def is_guaranteed(containers: list[RawObject]) -> bool:
    """True if a pod of these containers is Guaranteed: in each, CPU and memory have requests equal to limits.

    Source: k8s.io/kubernetes/pkg/apis/core/v1/helper/qos. A missing request counts as its limit, a limit of 0 as none.
    """
    return bool(containers) and all(map(_is_pinned, containers))


def _is_pinned(each: RawObject) -> bool:
    limits, requests = mapping(each, "resources", "limits"), mapping(each, "resources", "requests")
    for resource in ("cpu", "memory"):
        limit = limits.get(resource)
        if limit is None or not same_quantity(requests.get(resource, limit), limit) or same_quantity(limit, 0):
            return False
    return True
