"""What is asked about the server itself: by the kubelet whether it lives and is ready, by Prometheus how it does.

On a port of its own without TLS, so that it answers before there is a certificate, and whatever becomes of it.
"""

from collections.abc import Callable
from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, FastAPI, Response

from webhook.readiness import Readiness


def health_app(readiness: Readiness, exposition: Callable[[], Response]) -> FastAPI:
    """Return the application of the health port; `exposition` gives the metrics of the moment."""
    app = FastAPI(title="dravirt", openapi_url=None)
    app.include_router(health_router(readiness))

    @app.get("/metrics")
    async def metrics() -> Response:
        """Return the metrics."""
        return exposition()

    return app


def health_router(readiness: Readiness) -> APIRouter:
    """Return the routes that a kubelet's probes ask."""
    router = APIRouter()

    @router.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Answer as long as the event loop turns."""
        return {"status": "ok"}

    @router.get("/readyz")
    async def readyz(response: Response) -> dict[str, Any]:
        """Say whether reviews may be sent here, and what is not ready."""
        conditions = readiness.conditions()
        ready = all(condition.ready for condition in conditions.values())
        if not ready:
            response.status_code = HTTPStatus.SERVICE_UNAVAILABLE
        return {"ready": ready, "conditions": {name: asdict(each) for name, each in conditions.items()}}

    return router
