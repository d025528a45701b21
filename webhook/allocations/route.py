"""The HTTP side of the allocation service: `POST /v1/allocations` with a bearer token and `{"version": 1}`.

The token goes to the API server and nowhere else: not into the log, not into an error.
"""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from starlette.requests import ClientDisconnect

from dra.answer import answer_to_json, check_version
from dra.contract import ALLOCATIONS_PATH
from dra.errors import DravirtError, Failed, Refused
from dra.fields import Fields
from dra.reasons import Reason
from webhook.allocations.service import AllocationService, Answer

MAX_BODY = 1024
"""Bytes: the question is `{"version": 1}`."""
BODY_SECONDS = 2.0
RETRY_AFTER = 1
"""Seconds. Sidecars add what keeps them apart from each other."""

# A JSON Web Token has three parts in base64url; the kubelet's is some 1,200 characters long.
_BEARER = re.compile(r"Bearer ([-\w.~+/=]{1,16384})", re.ASCII)
_STATUS: Mapping[Reason, HTTPStatus] = {
    Reason.INVALID_REQUEST: HTTPStatus.BAD_REQUEST,
    Reason.INVALID_TOKEN: HTTPStatus.UNAUTHORIZED,
    Reason.POD_MISMATCH: HTTPStatus.FORBIDDEN,
    Reason.NOT_OPTED_IN: HTTPStatus.FORBIDDEN,
    Reason.NOT_A_LAUNCHER: HTTPStatus.FORBIDDEN,
    Reason.SIDECAR_MISSING: HTTPStatus.FORBIDDEN,
    Reason.INCOMPLETE_POOL: HTTPStatus.SERVICE_UNAVAILABLE,
    Reason.API_UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    Reason.NOT_SERVING: HTTPStatus.SERVICE_UNAVAILABLE,
    Reason.UNREADABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    Reason.BUSY: HTTPStatus.SERVICE_UNAVAILABLE,
}
"""What is not named here is a conflict with what the cluster holds."""

_log = logging.getLogger(__name__)


def allocations_router(service: Callable[[], AllocationService | None], record: Callable[[Any], None]) -> APIRouter:
    """Return the route. `service` gives None while it is switched off; `record` is told of each answer."""
    router = APIRouter()

    @router.post(ALLOCATIONS_PATH)
    async def allocations(request: Request) -> Response:
        """Answer with the devices of the pod that asks."""
        started = time.perf_counter()
        try:
            answer = await _answer(request, service())
            response, event = _answered(answer), {"outcome": "answered", **_caller(answer)}
        except DravirtError as error:
            outcome = "failed" if isinstance(error, Failed) else "refused"
            response, event = _refused(error), {"outcome": outcome, "reason": error.reason, "detail": error.message}
        except Exception:  # noqa: BLE001 (the outermost loop: a defect fails one answer and tells the log why)
            _log.exception("a pod got no answer", extra={"fields": {"reason": Reason.INTERNAL_ERROR}})
            response, event = _internal_error(), {"outcome": "failed", "reason": Reason.INTERNAL_ERROR}
        seconds = time.perf_counter() - started
        record({"message": "allocations", "status": response.status_code, **event, "ms": round(seconds * 1000, 2)})
        return response

    return router


async def _answer(request: Request, service: AllocationService | None) -> Answer:
    if service is None:
        raise Failed(Reason.NOT_SERVING, "the allocation service is switched off: set allocationService")
    token = _BEARER.fullmatch(request.headers.get("authorization", ""))
    if token is None:
        raise Refused(Reason.INVALID_TOKEN, "the header Authorization must be: Bearer <token>")
    _check_question(await _body(request))
    return await service.answer(token[1])


async def _body(request: Request) -> bytes:
    body = b""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY:
                    raise Refused(Reason.INVALID_REQUEST, f"the body is larger than {MAX_BODY} bytes")
    except (TimeoutError, ClientDisconnect) as error:
        raise Refused(Reason.INVALID_REQUEST, "the body did not come to its end") from error
    return body


def _check_question(body: bytes) -> None:
    """Refuse a body that says more than the version: who asks is told by the token alone."""
    try:
        fields = Fields.of(orjson.loads(body), "body", Reason.INVALID_REQUEST)
    except orjson.JSONDecodeError as error:
        raise Refused(Reason.INVALID_REQUEST, f"the body is no JSON: {error}") from error
    fields.only(("version",))
    check_version(fields)


def _answered(answer: Answer) -> Response:
    return Response(orjson.dumps(answer_to_json(answer.pod_claims)), media_type="application/json")


def _caller(answer: Answer) -> Mapping[str, Any]:
    devices = sorted(str(device) for of in answer.pod_claims.values() for device in of)
    return {"namespace": answer.caller.namespace, "pod": answer.caller.pod, "devices": devices}


def _refused(error: DravirtError) -> Response:
    """Return the answer that says why; with Retry-After where a retry may help."""
    status = _STATUS.get(error.reason, HTTPStatus.CONFLICT)
    headers = {"Retry-After": str(RETRY_AFTER)} if isinstance(error, Failed) else {}
    if status is HTTPStatus.BAD_REQUEST:
        headers["Connection"] = "close"  # what may follow of the body is not read
    body = orjson.dumps({"reason": error.reason, "message": error.message})
    return Response(body, status, headers, media_type="application/json")


def _internal_error() -> Response:
    body = orjson.dumps({"reason": Reason.INTERNAL_ERROR, "message": Reason.INTERNAL_ERROR.sentence})
    return Response(body, HTTPStatus.INTERNAL_SERVER_ERROR, media_type="application/json")
