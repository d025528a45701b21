"""AdmissionReview v1 on the wire: the question as bytes to a value, the decision to bytes.

What is refused here is the request itself, not the object in it: the answer is an HTTP error, and the failurePolicy
decides. The API server sends none of it under the rules that dravirt ships (`admissionReviewVersions: [v1]`, one
resource without subresources per path, CREATE and UPDATE); under other rules an error that says so beats an object that
was silently left alone.
Source: k8s.io/api/admission/v1; k8s.io/apiserver, pkg/admission/plugin/webhook/request/admissionreview.go.
"""

import base64
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import orjson

from dra.errors import Refused
from dra.fields import Fields, shown
from dra.reasons import Reason
from webhook.decision import AdmissionRequest, Decision

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"

_WRONG = Reason.INVALID_REVIEW
_OPERATIONS = ("CREATE", "UPDATE")
_MAX_UID = 253
_MAX_WARNING = 512
_MAX_WARNINGS = 4096
"""Characters in all; above, the API server cuts each at 256. Source: k8s.io/apiserver, endpoints/filters/warning.go."""


def read_review(body: bytes, *, group: str, kind: str) -> AdmissionRequest:
    """Return the request in `body`, which must be about a `kind` of the API group `group`.

    Raises Refused with the path of the wrong field.
    """
    try:
        review = Fields.of(orjson.loads(body), "", _WRONG)
    except orjson.JSONDecodeError as error:
        raise Refused(_WRONG, f"the body is not JSON: {error}") from error
    if review.raw.get("kind") != KIND:
        raise review.refuse("kind", f"must be {KIND}, got {shown(review.raw.get('kind'))}")
    if review.raw.get("apiVersion") != API_VERSION:
        message = (
            f"must be {API_VERSION}, got {shown(review.raw.get('apiVersion'))}: set admissionReviewVersions to [v1]"
        )
        raise review.refuse("apiVersion", message)
    request = review.mapping("request")
    _check_subject(request, group, kind)
    return AdmissionRequest(
        uid=_uid(request),
        kind=kind,
        operation=_operation(request),
        namespace=request.optional_text("namespace") or "",
        name=request.optional_text("name") or "",
        username=request.mapping("userInfo").optional_text("username") or "",
        object=_object(request),
        old_object=_old_object(request),
    )


def _check_subject(request: Fields, group: str, kind: str) -> None:
    got = request.mapping("kind").raw
    if got.get("group") != group or got.get("kind") != kind:
        other = f"{shown(got.get('kind'))} of {shown(got.get('group'))}"
        raise request.refuse("kind", f"this path answers for {kind} of {group!r}, got {other}: correct the rules")
    if request.optional_text("subResource"):
        raise request.refuse("subResource", f"this path answers for {kind} itself: correct the rules")


def _uid(request: Fields) -> str:
    uid = request.text("uid")
    if not 0 < len(uid) <= _MAX_UID:
        raise request.refuse("uid", f"must have 1 to {_MAX_UID} characters, got {len(uid)}")
    return uid


def _operation(request: Fields) -> str:
    operation = request.text("operation")
    if operation not in _OPERATIONS:
        raise request.refuse("operation", f"must be one of {', '.join(_OPERATIONS)}, got {operation[:80]!r}")
    return operation


def _object(request: Fields) -> dict[str, Any]:
    value = request.raw.get("object")
    if not isinstance(value, dict):
        raise request.refuse("object", "must be the object under review")
    return value


def _old_object(request: Fields) -> dict[str, Any] | None:
    value = request.raw.get("oldObject")
    if value is not None and not isinstance(value, dict):
        raise request.refuse("oldObject", "must be the object before the change, or null")
    return value


def write_review(uid: str, decision: Decision) -> bytes:
    """Return the review that answers the request `uid` with `decision`.

    A denial is part of it: its HTTP status is 200 too, else the API server takes it for a failure of the webhook.
    """
    # The audit log of the API server then holds the reason, under `<name of the webhook>/reason`.
    audit = {"reason": decision.reason}
    response: dict[str, Any] = {"uid": uid, "allowed": decision.allowed, "auditAnnotations": audit}
    if not decision.allowed:
        response["status"] = {
            "code": HTTPStatus.FORBIDDEN,
            "reason": decision.reason,
            "message": decision.message,
        }
    elif decision.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(decision.patch.text).decode()
    if decision.warnings:
        response["warnings"] = _warnings(decision.warnings)
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _warnings(texts: Iterable[str]) -> list[str]:
    """Return the texts as they fit into Warning headers, which hold no control characters, and into the limits."""
    warnings: list[str] = []
    room = _MAX_WARNINGS
    for text in texts:
        warning = "".join(char if char.isprintable() else " " for char in text[:_MAX_WARNING])
        room -= len(warning)
        if room < 0:
            break
        warnings.append(warning)
    return warnings
