"""The HTTP side of one admission path, as a plain ASGI application.

Every start of an opted-in VM comes by here several times, and what a web framework does per request costs more than
parsing, deciding and answering together: so there is none in between.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from dra.errors import Refused
from dra.reasons import Reason
from webhook.admission import Handler
from webhook.config import Config
from webhook.decision import AdmissionRequest, Decision
from webhook.intake import Intake
from webhook.lookups import LookUp
from webhook.raw import mapping
from webhook.readiness import Readiness
from webhook.review import read_review, write_review

Event = Mapping[str, Any]
"""The fields of one line of the log."""

_OK = int(HTTPStatus.OK)
_MAX_NAME = 253  # characters of a name in Kubernetes

_log = logging.getLogger(__name__)


class _Response(NamedTuple):
    status: int
    body: bytes
    media_type: bytes = b"text/plain; charset=utf-8"
    headers: tuple[tuple[bytes, bytes], ...] = ()


class AdmissionEndpoint:
    """Answers the reviews that the API server posts to one path."""

    def __init__(
        self,
        handler: Handler,
        config: Callable[[], Config],
        readiness: Readiness,
        record: Callable[[Event], None],
        *,
        intake: Intake,
        look_up: LookUp | None = None,
    ) -> None:
        """Decide by `handler` under the configuration of the moment, and `record` each admission.

        `look_up` adds warnings to what is allowed.
        """
        self._handler = handler
        self._config = config
        self._readiness = readiness
        self._record = record
        self._intake = intake
        self._look_up = look_up

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        response = await self._respond(scope, receive)
        if response is None:
            return
        headers = [
            (b"content-type", response.media_type),
            (b"content-length", b"%d" % len(response.body)),
            *response.headers,
        ]
        if self._readiness.draining:
            # The API server's next review then goes to another replica, before this one closes its connections.
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body})

    async def _respond(self, scope: Scope, receive: Receive) -> _Response | None:
        try:
            body = await self._intake.read(scope, receive)
            started = time.perf_counter()
            request = read_review(body, group=self._handler.group, kind=self._handler.kind)
            decision = self._handler.decide(request, self._config())
            if self._look_up is not None and decision.allowed:
                warnings = await self._look_up(request, decision)
                decision = replace(decision, warnings=decision.warnings + warnings)
            answer = write_review(request.uid, decision)
            self._record(_event(scope["path"], request, decision, time.perf_counter() - started))
            return _Response(_OK, answer, b"application/json")
        except HTTPException as error:
            headers = {name.encode(): value.encode() for name, value in (error.headers or {}).items()}
            return _refused(scope, Reason.INVALID_REVIEW, error.status_code, error.detail, tuple(headers.items()))
        except Refused as error:
            return _refused(scope, error.reason, HTTPStatus.BAD_REQUEST, str(error))
        except ClientDisconnect:
            return None
        except Exception:  # noqa: BLE001 (the outermost loop: a defect fails one review, not the server)
            fields = {"path": scope["path"], "reason": Reason.INTERNAL_ERROR}
            _log.exception("a review was not answered", extra={"fields": fields})
            return _Response(HTTPStatus.INTERNAL_SERVER_ERROR, b"internal error, see the log of dravirt's webhook\n")


def _refused(
    scope: Scope, reason: Reason, status: int, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> _Response:
    fields = {"path": scope["path"], "status": status, "reason": reason, "detail": message}
    _log.warning("a request that is no review was refused", extra={"fields": fields})
    return _Response(status, f"{message}\n".encode(), headers=headers)


def _event(path: str, request: AdmissionRequest, decision: Decision, seconds: float) -> Event:
    """Return who asked what and what came of it, never the object."""
    name = request.name or mapping(request.object, "metadata").get("generateName")
    return {
        "message": "admission",
        "path": path,
        "uid": request.uid,
        "kind": request.kind,
        # Whoever posts can choose these two.
        "namespace": request.namespace[:_MAX_NAME],
        "name": name[:_MAX_NAME] if isinstance(name, str) else "",
        "operation": request.operation,
        "decision": "denied" if not decision.allowed else "patched" if decision.patch else "allowed",
        "reason": decision.reason,
        "ms": round(seconds * 1000, 2),
    }
