"""One connection of a client: HTTP/1.1 whose requests are bounded in the size of their head and in time.

Whatever reaches the Service can open connections. None may be kept open by sending nothing, or a byte now and then, and
those that do nothing make room for others.
"""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from webhook.onewrite import OneWrite

MAX_HEAD = 64 * 1024
"""Bytes of a request's line and headers; the API server sends a few hundred."""
REQUEST_SECONDS = 10.0
"""For a request to be there as a whole, from its first byte on: twice the timeout of the webhooks."""
MAX_CONNECTIONS = 1024
"""On a port: of 46 KiB each over TLS, so a sixth of the memory that the webhook may have."""


class BoundedConnection(HttpToolsProtocol):
    """Ends a connection whose requests grow too long beside the body or take too long to come, or whose client does not
    wait for its answers, or does not take them.

    A connection that has sent nothing yet is as idle as one between two requests, and ends as late: an API server keeps
    connections that it opened in advance, and its review must not meet one that closes.
    Source: net/http, Transport.dialConnFor (a connection that nobody waits for any more goes to the idle ones).
    """

    _head = 0
    """Bytes of the request that is being received, its body apart: of its head, the sizes of chunks, trailers."""
    _in_body = False
    _deadline: asyncio.TimerHandle | None = None
    """Of the request that has begun and is not there as a whole; most come in one piece and never have one."""
    _stalled: asyncio.TimerHandle | None = None
    """Of a client that does not take what is written to it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # (as it is there)
        """Begin: idle until the first byte."""
        super().connection_made(transport)
        self.transport = OneWrite(transport, self.loop)
        self._be_idle()
        if len(self.connections) > MAX_CONNECTIONS:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """End, and leave no timer behind."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._end_deadline()
        self._end_stall()

    def data_received(self, data: bytes) -> None:
        """Take what has come."""
        self._head += len(data)
        super().data_received(data)
        if self._head or self._in_body:
            if self._deadline is None:
                self._deadline = self.loop.call_later(REQUEST_SECONDS, self._request_is_late)
        elif self.cycle.response_complete:  # before its body was there, so that nothing else makes this one idle again
            self._be_idle()
        if self._head > MAX_HEAD and not self.transport.is_closing():
            self.send_400_response(f"The request has more than {MAX_HEAD} bytes beside its body.")

    def on_headers_complete(self) -> None:
        """Start the application; what comes now is the body, which it bounds itself."""
        if self.cycle is not None and not self.cycle.response_complete:
            # uvicorn keeps all that come before their turn. Go's client sends none: it waits for its answer.
            raise ValueError("a request before the answer to the last one")
        super().on_headers_complete()
        self._in_body = True

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._head -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Be ready for the next request."""
        super().on_message_complete()
        self._head = 0  # what else came with the end of the message is not counted: it is one read at most
        self._in_body = False
        self._end_deadline()

    def pause_writing(self) -> None:
        """Wait for a client to take what is written to it, and no longer than for a request."""
        super().pause_writing()
        self._end_stall()
        self._stalled = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on with a client that has taken it."""
        super().resume_writing()
        self._end_stall()

    def _be_idle(self) -> None:
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def _make_room(self) -> None:
        """End the connection that has been idle longest, else the one whose request has been coming longest.

        One that is asked something is never ended for another; where all are, this one is: it has sent nothing yet.
        """
        others = [each for each in self.connections if isinstance(each, BoundedConnection) and each is not self]
        idle = [(task.when(), each) for each in others if (task := each.timeout_keep_alive_task) is not None]
        begun = [(task.when(), each) for each in others if (task := each._deadline) is not None]  # noqa: SLF001 (its own class)
        candidates = idle or begun
        ended = min(candidates, key=lambda pair: pair[0])[1] if candidates else self
        ended.transport.abort()

    def _request_is_late(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end_stall(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
