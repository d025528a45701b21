"""A thin client of the API server: raw objects over HTTP, a bound on size and time, and errors of our two families.

Raw, since typed models lose fields that they do not know, and cost a thousand times the memory.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import orjson

from dra.errors import Failed
from dra.reasons import Reason
from webhook.decision import RawObject
from webhook.kubeaccess import Access, NotServed
from webhook.raw import mapping

MAX_RESPONSE = 32 * 1024 * 1024
"""Bytes of one answer: an object has 1.5 MiB at most, lists are asked for in pages."""
_CONNECTIONS = 16
_TIMEOUT = httpx.Timeout(4.0, connect=2.0)
_NOT_FOUND = 404


class KubeClient:
    """Requests to one API server, over connections that are kept open."""

    def __init__(self, access: Access) -> None:
        self._access = access
        limits = httpx.Limits(max_connections=_CONNECTIONS, keepalive_expiry=30)
        # No proxy from the environment: the token goes to the API server alone.
        self._client = httpx.AsyncClient(verify=access.tls, limits=limits, timeout=_TIMEOUT, trust_env=False)

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> RawObject | None:
        """Return the object at `path`, None where there is none. Raises Failed, NotServed where no path is such."""
        return await self._request("GET", path, params=params)

    async def post(self, path: str, body: RawObject) -> RawObject:
        """Create the object `body` and return what came of it. Raises Failed."""
        created = await self._request("POST", path, content=orjson.dumps(body))
        if created is None:
            raise _unavailable(f"POST {path}: 404 not found")
        return created

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _request(self, method: str, path: str, **options: Any) -> RawObject | None:
        async with self._answer(method, path, options) as response:
            body = await _read(response)
        value = _json(body)
        if response.status_code == _NOT_FOUND:
            if mapping(value or {}, "details").get("name"):
                return None
            raise NotServed(Reason.API_UNAVAILABLE, f"the API server does not serve {path:.300}")
        if response.status_code >= httpx.codes.BAD_REQUEST:
            message = value.get("message") if value else None
            raise _unavailable(f"{method} {path}: {response.status_code}: {message or response.reason_phrase!s:.300}")
        if value is None:
            raise _unavailable(f"{method} {path}: the answer is no JSON object")
        return value

    @asynccontextmanager
    async def _answer(self, method: str, path: str, options: Mapping[str, Any]) -> AsyncIterator[httpx.Response]:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        try:
            if token := self._access.token():
                headers["Authorization"] = f"Bearer {token}"
            async with self._client.stream(method, self._access.url + path, headers=headers, **options) as response:
                yield response
        except (httpx.RequestError, OSError) as error:
            # (some errors of httpx have no text of their own)
            raise _unavailable(f"{method} {path}: {type(error).__name__} {error}".rstrip()) from error


async def _read(response: httpx.Response) -> bytes:
    chunks, size = [], 0
    async for chunk in response.aiter_bytes():
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_RESPONSE:
            raise _unavailable(f"the answer is larger than {MAX_RESPONSE} bytes")
    return b"".join(chunks)


def _json(body: bytes) -> RawObject | None:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _unavailable(message: str) -> Failed:
    return Failed(Reason.API_UNAVAILABLE, f"the API server does not answer: {message:.500}")
