"""Taking in the body of a review: how much, and how rich in fields it may be.

Whatever reaches the Service can post, so that a body must cost no more than a review of the largest object does: not in
memory, in all requests together, and not in time of the one event loop. How long it may take to come, the connection
bounds (`webhook.connection`): it knows whether there is anything to wait for, while a timeout here would be started and
stopped for every review.
"""

from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

MAX_BODY = 7 * 1024 * 1024
"""Bytes. A review holds its object twice at most, and the API server takes requests of up to 3 MiB."""
MAX_HELD = 32 * 1024 * 1024
"""Bytes of bodies under way in all: above a thousand reviews of ordinary size."""
ORDINARY = 64 * 1024
"""Bytes of a body that is taken all the same, or a few clients with large ones would keep out everybody's reviews.

As many connections as a port takes then hold 64 MiB more at most.
"""
MAX_VALUES = 200_000
"""Values in a review, by what separates them. One takes 100 bytes and more; the review of a launcher pod has 600."""


class Intake:
    """Reads bodies, and knows how much of them it holds."""

    def __init__(self) -> None:
        self._held = 0

    async def read(self, scope: Scope, receive: Receive) -> bytes:
        """Return the body of a POST of JSON.

        Raises HTTPException with what is wrong, ClientDisconnect where the body is cut.
        """
        _check_head(scope)
        chunks: list[bytes] = []
        size, more = 0, True
        try:
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                chunk, more = message.get("body", b""), message.get("more_body", False)
                chunks.append(chunk)
                size += len(chunk)
                self._held += len(chunk)
                if size > MAX_BODY:
                    raise _too_large()
                if self._held > MAX_HELD and size > ORDINARY:
                    raise _closing(HTTPStatus.SERVICE_UNAVAILABLE, "too many bodies are under way: try again")
        finally:
            self._held -= size
        body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        if not body:
            raise HTTPException(HTTPStatus.BAD_REQUEST, "the body is empty: an AdmissionReview is expected")
        if len(body) > MAX_VALUES and _values(body) > MAX_VALUES:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body holds more than {MAX_VALUES} values")
        return body


def _check_head(scope: Scope) -> None:
    if scope["method"] != "POST":
        raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, "only POST is answered here", {"allow": "POST"})
    media_type, length = b"", b"0"
    for name, value in scope["headers"]:
        if name == b"content-type":
            media_type = value
        elif name == b"content-length":
            length = value
    if media_type.partition(b";")[0].strip().lower() != b"application/json":
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the content type must be application/json")
    if int(length) > MAX_BODY:
        raise _too_large()


def _values(body: bytes) -> int:
    return body.count(b",") + body.count(b"{") + body.count(b"[")


def _too_large() -> HTTPException:
    return _closing(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {MAX_BODY} bytes")


def _closing(status: HTTPStatus, message: str) -> HTTPException:
    """Return an error that ends the connection, since the client would go on to send what nobody reads."""
    return HTTPException(status, message, {"connection": "close"})
