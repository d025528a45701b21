"""A client that calls an ASGI application in this process."""

import asyncio
from typing import Any

import httpx
from starlette.types import ASGIApp


class Client:
    """Calls `app` as an HTTP server would, one request after the other."""

    def __init__(self, app: ASGIApp) -> None:
        self._transport = httpx.ASGITransport(app)

    def request(self, method: str, url: str, **options: Any) -> httpx.Response:
        """Return the response; the options are those of httpx."""
        return asyncio.run(self._request(method, url, **options))

    def get(self, url: str, **options: Any) -> httpx.Response:
        """Return the response to a GET."""
        return self.request("GET", url, **options)

    def post(self, url: str, **options: Any) -> httpx.Response:
        """Return the response to a POST."""
        return self.request("POST", url, **options)

    async def _request(self, method: str, url: str, **options: Any) -> httpx.Response:
        async with httpx.AsyncClient(transport=self._transport, base_url="http://webhook") as client:
            return await client.request(method, url, **options)
