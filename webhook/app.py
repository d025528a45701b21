"""The webhook's HTTP application: the admission paths, and FastAPI for everything else."""

from collections.abc import Callable, Mapping, Sequence

from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from webhook.admission import HANDLERS, Handler
from webhook.config import Config
from webhook.endpoint import AdmissionEndpoint, Event
from webhook.health import health_router
from webhook.intake import Intake
from webhook.lookups import LookUp
from webhook.readiness import Readiness


def create_app(
    config: Callable[[], Config],
    readiness: Readiness,
    record: Callable[[Event], None],
    handlers: Mapping[str, Handler] = HANDLERS,
    *,
    look_up: LookUp | None = None,
    routes: Sequence[APIRouter] = (),
) -> ASGIApp:
    """Return the ASGI application that answers reviews by `handlers`, and `routes` beside them.

    `config` returns the configuration of the moment; `record` is told of each admission; `look_up` adds warnings about
    what a VM or VMI asks for.
    """
    intake = Intake()
    endpoints = {
        # Never for pods: a launcher pod must not wait for the API server.
        path: AdmissionEndpoint(
            handler, config, readiness, record, intake=intake, look_up=None if handler.kind == "Pod" else look_up
        )
        for path, handler in handlers.items()
    }
    others = _others(readiness, routes)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        # Before FastAPI, not inside it: its routing would take a third of the time of an admission.
        await endpoints.get(scope.get("path", ""), others)(scope, receive, send)

    return app


def _others(readiness: Readiness, routes: Sequence[APIRouter]) -> FastAPI:
    """Return what is served beside the admission paths."""
    # No documentation pages: whatever reaches the Service could read them.
    app = FastAPI(title="dravirt", openapi_url=None)
    app.include_router(health_router(readiness))
    for route in routes:
        app.include_router(route)
    return app
