"""AdmissionReview v1 on the wire: the question as bytes to a value, the decision to bytes.

What is refused here is the request itself, not the object in it: the answer is an HTTP error, and the failurePolicy
decides. The API server sends none of it under the rules that dravirt ships (`admissionReviewVersions: [v1]`, one
resource without subresources per path, CREATE and UPDATE); under other rules an error that says so beats an object that
was silently left alone.
Source: k8s.io/api/admission/v1; k8s.io/apiserver, pkg/admission/plugin/webhook/request/admissionreview.go.
"""

import base64
from collections.abc import Iterable
from functools import lru_cache
from http import HTTPStatus
from typing import Any

import orjson
from msgspec import DecodeError, ValidationError
from msgspec.json import Decoder

from dra.errors import Refused
from dra.fields import shown
from dra.reasons import Reason
from webhook.decision import AdmissionRequest, Decision
from webhook.schema import RawPod, RawVM, Request, Review

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"

_POD: Decoder[Review[Any]] = Decoder(Review[RawPod])
_VM: Decoder[Review[Any]] = Decoder(Review[RawVM])
_WRONG = Reason.INVALID_REVIEW
_OPERATIONS = ("CREATE", "UPDATE")
_MAX_UID = 253
_MAX_PATH = 500
_MAX_WARNING = 512
_MAX_WARNINGS = 4096
"""Characters in all; above, the API server cuts each at 256. Source: k8s.io/apiserver, endpoints/filters/warning.go."""


def read_review(body: bytes, *, group: str, kind: str) -> AdmissionRequest:
    """Return the request in `body`, which must be about a `kind` of the API group `group`.

    Raises Refused with the path of the wrong field.
    """
    review = _decode(body, _POD if kind == "Pod" else _VM)
    if review.kind != KIND:
        raise Refused(_WRONG, f"must be {KIND}, got {shown(review.kind)}", path="kind")
    if review.apiVersion != API_VERSION:
        message = f"must be {API_VERSION}, got {shown(review.apiVersion)}: set admissionReviewVersions to [v1]"
        raise Refused(_WRONG, message, path="apiVersion")
    request = review.request
    _check(request, group, kind)
    item = request.object
    if item is None:
        raise Refused(_WRONG, "must be the object under review", path="request.object")
    return AdmissionRequest(
        uid=request.uid,
        kind=kind,
        operation=request.operation,
        namespace=request.namespace or "",
        name=request.name or "",
        username=request.userInfo.username or "",
        object=item,
        old_object=request.oldObject,
    )


def _decode(body: bytes, decoder: Decoder[Review[Any]]) -> Review[Any]:
    try:
        return decoder.decode(body)
    except ValidationError as error:
        what, _, path = str(error).partition(" - at `$.")  # as in: Expected `str`, got `int` - at `$.request.uid`
        raise Refused(_WRONG, what.lower(), path=path[:_MAX_PATH].rstrip("`") or "the body") from error
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:  # (the second before msgspec 0.23)
        raise Refused(_WRONG, f"the body is not JSON: {error}") from error


def _check(request: Request[Any], group: str, kind: str) -> None:
    """Refuse what this path does not answer for, and what no API server sends."""
    if request.kind.kind != kind or request.kind.group != group:
        other = f"{shown(request.kind.kind)} of {shown(request.kind.group)}"
        message = f"this path answers for {kind} of {group!r}, got {other}: correct the rules"
        raise Refused(_WRONG, message, path="request.kind")
    if request.subResource:
        message = f"this path answers for {kind} itself: correct the rules"
        raise Refused(_WRONG, message, path="request.subResource")
    if not 0 < len(request.uid) <= _MAX_UID:
        raise Refused(_WRONG, f"must have 1 to {_MAX_UID} characters, got {len(request.uid)}", path="request.uid")
    if request.operation not in _OPERATIONS:
        message = f"must be one of {', '.join(_OPERATIONS)}, got {request.operation[:80]!r}"
        raise Refused(_WRONG, message, path="request.operation")


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
        response["patch"] = _base64(decision.patch.text)
    if decision.warnings:
        response["warnings"] = _warnings(decision.warnings)
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response})


@lru_cache(maxsize=64)  # pods of one shape share their patch
def _base64(patch: bytes) -> str:
    return base64.b64encode(patch).decode()


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
