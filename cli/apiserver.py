"""The API server's side of admission: it posts an AdmissionReview, checks the answer and applies the patch."""

import base64
import copy
import json
import uuid
from dataclasses import dataclass, field
from typing import Any

import httpx
import jsonpatch

from dra.errors import Failed, Refused
from dra.reasons import Reason

_KINDS = {
    "VirtualMachine": ("kubevirt.io", "v1", "virtualmachines"),
    "VirtualMachineInstance": ("kubevirt.io", "v1", "virtualmachineinstances"),
    "Pod": ("", "v1", "pods"),
}


@dataclass(frozen=True, slots=True)
class Admitted:
    """An object as it left one webhook, and what the webhook said."""

    item: dict[str, Any]
    patch: list[dict[str, Any]]
    warnings: list[str]
    reason: str
    review: dict[str, Any] = field(repr=False)
    answer: dict[str, Any] = field(repr=False)


def admit(client: httpx.Client, path: str, item: dict[str, Any], *, namespace: str, username: str) -> Admitted:
    """Return `item` as the webhook at `path` leaves it. Raises Refused with its message where it denies the object.

    Source: k8s.io/apiserver/pkg/admission/plugin/webhook, request and mutating/dispatcher.go.
    """
    review = _review(item, namespace, username)
    try:
        response = client.post(path, json=review, params={"timeout": "5s"})
    except httpx.HTTPError as error:
        raise Failed(Reason.NOT_SERVING, f"POST {path}: {error}") from error
    if response.status_code != httpx.codes.OK:
        raise Failed(Reason.NOT_SERVING, f"POST {path}: HTTP {response.status_code}: {response.text:.500}")
    answer = response.json()
    verdict = answer.get("response", {})
    if (answer.get("apiVersion"), answer.get("kind")) != (review["apiVersion"], review["kind"]):
        raise Failed(Reason.NOT_SERVING, f"POST {path}: the answer is no AdmissionReview")
    if verdict.get("uid") != review["request"]["uid"]:
        raise Failed(Reason.NOT_SERVING, f"POST {path}: the answer is to another request")
    if verdict.get("allowed") is not True:
        raise Refused(Reason.DENIED, f"admission webhook denied the request: {verdict['status']['message']}")
    patch = json.loads(base64.b64decode(verdict["patch"])) if verdict.get("patchType") == "JSONPatch" else []
    return Admitted(
        item=_patched(item, patch),
        patch=patch,
        warnings=verdict.get("warnings", []),
        reason=verdict.get("auditAnnotations", {}).get("reason", ""),
        review=review,
        answer=answer,
    )


def _patched(item: dict[str, Any], patch: list[dict[str, Any]]) -> dict[str, Any]:
    try:
        patched: dict[str, Any] = jsonpatch.apply_patch(copy.deepcopy(item), patch)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        raise Refused(Reason.CHECK_FAILED, f"the patch of the {item['kind']} does not apply: {error}") from error
    return patched


def _review(item: dict[str, Any], namespace: str, username: str) -> dict[str, Any]:
    group, version, resource = _KINDS[item["kind"]]
    kind = {"group": group, "version": version, "kind": item["kind"]}
    resources = {"group": group, "version": version, "resource": resource}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": str(uuid.uuid4()),
            "kind": kind,
            "resource": resources,
            "requestKind": kind,
            "requestResource": resources,
            "name": item["metadata"].get("name", ""),
            "namespace": namespace,
            "operation": "CREATE",
            "userInfo": {"username": username},
            "object": item,
            "oldObject": None,
            "dryRun": False,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        },
    }
