"""AdmissionReviews as the API server posts them."""

import base64
import json
from typing import Any

import jsonpatch

UID = "413168c2-2fa5-4a67-8ee7-5ad8429c7459"
POD = {"group": "", "version": "v1", "kind": "Pod"}
VM = {"group": "kubevirt.io", "version": "v1", "kind": "VirtualMachine"}


def review(item: dict[str, Any] | None = None, kind: dict[str, str] | None = None, **request: Any) -> dict[str, Any]:
    """Return the review of an object that is created, a pod where `kind` says nothing else.

    Source: k8s.io/api/admission/v1, AdmissionRequest; taken from a live API server (Kubernetes 1.36).
    """
    kind = kind or POD
    resource = {"group": kind["group"], "version": kind["version"], "resource": f"{kind['kind'].lower()}s"}
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": UID,
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "namespace": "team-a",
            "operation": "CREATE",
            "userInfo": {
                "username": "system:serviceaccount:kubevirt:kubevirt-controller",
                "groups": ["system:authenticated"],
            },
            "object": {"metadata": {"generateName": "virt-launcher-vm-"}} if item is None else item,
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        }
        | request,
    }


def mutated(item: dict[str, Any], response: dict[str, Any]) -> Any:
    """Return an object as the response to its review makes it."""
    return jsonpatch.apply_patch(item, json.loads(base64.b64decode(response["patch"])))
