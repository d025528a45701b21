"""Load on an HTTPS server: some connections that stay open, each with one request under way at any time."""

import asyncio
import re
import ssl
import time
from dataclasses import dataclass

import uvloop

_LENGTH = re.compile(rb"content-length: *([0-9]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Load:
    """What came of it; latencies in seconds, sorted."""

    seconds: float
    latencies: list[float]

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.latencies) / self.seconds

    def percentile(self, share: float) -> float:
        """Milliseconds within which `share` of the requests were answered."""
        return self.latencies[min(int(share * len(self.latencies)), len(self.latencies) - 1)] * 1000


class _Connection(asyncio.Protocol):
    """Sends the request again as soon as it is answered, until `until`."""

    def __init__(self, request: bytes, until: float, done: "asyncio.Future[list[float]]") -> None:
        self._request, self._until, self._done = request, until, done
        self._latencies: list[float] = []
        self._received = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvloop's is another
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._sent = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not end or not length or len(body) < int(length[1]):
            return
        now = time.perf_counter()
        if not head.startswith(b"HTTP/1.1 200 "):
            self._done.set_exception(RuntimeError(f"{head!r}: {body[:500]!r}"))
            self._transport.close()
            return
        self._latencies.append(now - self._sent)
        self._received = b""
        if now < self._until:
            self._send()
        else:
            self._done.set_result(self._latencies)
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(exc or ConnectionResetError("closed by the server"))


def run_load(port: int, path: str, body: bytes, tls: ssl.SSLContext, *, connections: int, seconds: float) -> Load:
    """Post `body` to `path` of the server on loopback, over and over. Raises what a connection raised."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    return uvloop.run(_run(port, request, tls, connections, seconds))


async def _run(port: int, request: bytes, tls: ssl.SSLContext, connections: int, seconds: float) -> Load:
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    answered = [loop.create_future() for _ in range(connections)]

    def connect(done: "asyncio.Future[list[float]]") -> _Connection:
        return _Connection(request, started + seconds, done)

    for done in answered:
        await loop.create_connection(
            lambda done=done: connect(done), "127.0.0.1", port, ssl=tls, server_hostname="localhost"
        )
    latencies = [latency for each in await asyncio.gather(*answered) for latency in each]
    return Load(time.perf_counter() - started, sorted(latencies))
