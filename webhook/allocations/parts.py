"""The parts of the allocation service, put together: made only where it is on, since many run without."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter

from dra.errors import DravirtError
from webhook.allocations.gate import Gate
from webhook.allocations.route import allocations_router
from webhook.allocations.service import AllocationService
from webhook.config import Config
from webhook.kubeaccess import find_access
from webhook.kubedra import Cluster
from webhook.log import EventLog


@dataclass(frozen=True, slots=True)
class AllocationParts:
    """What a server needs to serve allocations and to look up what VMs ask for."""

    router: APIRouter
    cluster: Callable[[], Cluster | None]
    """Gives None while the service is switched off."""


def allocation_parts(config: Callable[[], Config], kubeconfig: Path | None) -> AllocationParts:
    """Return the parts of a server with the configuration of the moment."""
    made: list[Cluster] = []

    def cluster() -> Cluster:
        if not made:
            # httpx costs 10 MiB: an installation without the service does without.
            from webhook.kubeclient import KubeClient  # noqa: PLC0415 (above)

            made.append(Cluster(KubeClient(find_access(kubeconfig))))
        return made[0]

    service = AllocationService(cluster, lambda: config().attributes, Gate())

    def is_on() -> bool:
        return config().allocation_service is not None

    if is_on():
        # Before the first request, which would wait for the import, and admissions with it.
        with suppress(DravirtError):  # (told to the first that asks)
            cluster()
    return AllocationParts(
        allocations_router(lambda: service if is_on() else None, EventLog("webhook.allocations")),
        lambda: cluster() if is_on() else None,
    )
