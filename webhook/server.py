"""Serving an ASGI application over TLS with uvicorn, from the first connection to the last answer."""

import asyncio
import contextlib
import gc
import logging
import resource
import signal
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp

from dra.errors import Failed
from dra.reasons import Reason
from webhook.connection import BoundedConnection
from webhook.readiness import Readiness

KEEP_ALIVE_SECONDS = 120
"""Longer than the API server keeps an idle connection (90 s): else a review could meet a connection that closes.

Source: k8s.io/apimachinery/pkg/util/net, SetTransportDefaults.
"""
FINISH_SECONDS = 10
"""For the reviews under way when the server stops: twice the timeout of the webhooks."""
HANDSHAKE_SECONDS = 10.0
"""For TLS to be agreed on, and to be ended: by itself the event loop waits for a minute, and for half of one."""
_BACKLOG = 2048

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen: on all addresses where `host` is empty, on any free port where `port` is 0."""

    host: str
    port: int


def serve(
    app: ASGIApp,
    address: Address,
    tls: ssl.SSLContext | None,
    readiness: Readiness,
    *,
    drain_seconds: float,
    health: tuple[ASGIApp, Address] | None = None,
) -> None:
    """Serve `app` until SIGTERM or SIGINT, then drain and return; beside it `health`, from before until after.

    For `drain_seconds` it answers as before and is not ready, since Kubernetes sends for a while to an endpoint that it
    has begun to remove; then it accepts nothing and finishes what is under way. Raises Failed where it cannot listen.
    """
    _allow_files()
    main = _Server(app, _listen(address), tls)
    beside = _Server(health[0], _listen(health[1])) if health else None
    gc.freeze()  # what is loaded now stays: looking through it at each full collection would delay an admission
    with asyncio.Runner(loop_factory=main.config.get_loop_factory()) as runner:
        runner.run(_run(main, beside, readiness, drain_seconds))


class _Server(uvicorn.Server):
    """A server on one listener.

    Its signals are handled outside: uvicorn would stop at once and end by the signal, not with code 0.
    """

    def __init__(self, app: ASGIApp, listener: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        config = uvicorn.Config(
            app,
            loop="uvloop",
            http=BoundedConnection,
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
        config.load()
        super().__init__(config)
        self.listener = listener

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self.listener.getsockname()[:2]
        return f"{'https' if self.config.is_ssl else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept, as uvicorn does, and with a deadline for handshakes, which it leaves to the event loop."""
        loop, seconds = asyncio.get_running_loop(), HANDSHAKE_SECONDS if self.config.is_ssl else None
        self.servers = [
            await loop.create_server(
                lambda: BoundedConnection(self.config, self.server_state, {}),
                sock=each,
                ssl=self.config.ssl,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=seconds,
            )
            for each in sockets or []
        ]
        self.started = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _run(main: _Server, beside: _Server | None, readiness: Readiness, drain_seconds: float) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    # A person at a terminal need not wait for a cluster's endpoints.
    for number, seconds in ((signal.SIGTERM, drain_seconds), (signal.SIGINT, 0.0)):
        loop.add_signal_handler(number, _drain, readiness, seconds, stop)
    async with asyncio.TaskGroup() as tasks:
        if beside:
            _log.info("health and metrics at %s", beside.url)
            tasks.create_task(beside.serve([beside.listener]))
        _log.info("listening on %s", main.url)
        serving = tasks.create_task(main.serve([main.listener]))
        stopping = tasks.create_task(stop.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        main.should_exit = True
        await serving
        if beside:
            beside.should_exit = True
    _log.info("stopped")


def _allow_files() -> None:
    """Allow as many open files as may be had: many container runtimes give 1,024, as many as one port takes."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


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
