"""Serving an ASGI application over TLS with uvicorn, from the first connection to the last answer."""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dra.errors import Failed
from dra.reasons import Reason
from webhook.readiness import Readiness

KEEP_ALIVE_SECONDS = 120
"""Longer than the API server keeps an idle connection (90 s): else a review could meet a connection that closes.

Source: k8s.io/apimachinery/pkg/util/net, SetTransportDefaults.
"""
FINISH_SECONDS = 10
"""For the reviews under way when the server stops: twice the timeout of the webhooks."""
MAX_HEAD = 64 * 1024
"""Bytes of a request's line and headers; the API server sends a few hundred."""
_BACKLOG = 2048

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen: on all addresses where `host` is empty, on any free port where `port` is 0."""

    host: str
    port: int


def serve(
    app: ASGIApp, address: Address, tls: ssl.SSLContext | None, readiness: Readiness, *, drain_seconds: float
) -> None:
    """Serve `app` until SIGTERM or SIGINT, then drain and return.

    For `drain_seconds` it answers as before and is not ready, since Kubernetes sends for a while to an endpoint that it
    has begun to remove; then it accepts nothing and finishes what is under way. Raises Failed where it cannot listen.
    """
    listener = _listen(address)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=_BoundedHead,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=FINISH_SECONDS,
        ssl_context_factory=None if tls is None else lambda *_: tls,
    )
    server = _Server(config)
    config.load()
    gc.freeze()  # what is loaded now stays: looking through it at each full collection would delay an admission
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(_run(server, listener, readiness, drain_seconds))


class _BoundedHead(HttpToolsProtocol):
    """HTTP/1.1 that ends a connection whose request line and headers grow too long: its parser would keep them all."""

    _head: int | None = 0
    """Bytes of the head that is being received, None within a body."""

    def data_received(self, data: bytes) -> None:
        if self._head is not None:
            self._head += len(data)
        super().data_received(data)
        if self._head is not None and self._head > MAX_HEAD and not self.transport.is_closing():
            self.send_400_response(f"The request line and headers are longer than {MAX_HEAD} bytes.")

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._head = None

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._head = 0  # what else came with the end of the message is not counted: it is one read at most


class _Server(uvicorn.Server):
    """A server whose signals are handled outside: uvicorn would stop at once and end by the signal, not with code 0."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _run(server: _Server, listener: socket.socket, readiness: Readiness, drain_seconds: float) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    # A person at a terminal need not wait for a cluster's endpoints.
    for number, seconds in ((signal.SIGTERM, drain_seconds), (signal.SIGINT, 0.0)):
        loop.add_signal_handler(number, _drain, readiness, seconds, stop)
    _log.info("listening on %s", _url(listener, tls=server.config.is_ssl))
    serving, stopping = asyncio.create_task(server.serve([listener])), asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    server.should_exit = True
    await serving
    _log.info("stopped")


def _drain(readiness: Readiness, seconds: float, stop: asyncio.Event) -> None:
    """Set `stop` in `seconds`, or sooner where a signal before or after this one asks for it."""
    _log.info("draining for %g s", seconds)
    readiness.draining = True
    asyncio.get_running_loop().call_later(seconds, stop.set)


def _listen(address: Address) -> socket.socket:
    """Return a listening socket. Raises Failed."""
    both = not address.host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both or ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        raise Failed(Reason.NOT_SERVING, f"cannot listen on {address.host or '*'}:{address.port}: {error}") from error


def _url(listener: socket.socket, *, tls: bool) -> str:
    host, port = listener.getsockname()[:2]
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
