"""The parts of the allocation service, put together: made only where it is on, since many run without."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import APIRouter

from dra.errors import DravirtError
from webhook.allocations.gate import Gate
from webhook.allocations.route import allocations_router
from webhook.allocations.service import AllocationService
from webhook.config import Config
from webhook.kubeaccess import find_access
from webhook.kubedra import Cluster

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AllocationParts:
    """What a server needs to serve allocations and to look up what VMs ask for."""

    router: APIRouter
    cluster: Callable[[], Cluster | None]
    """Gives None while the service is switched off."""


def allocation_parts(
    config: Callable[[], Config], kubeconfig: Path | None, record: Callable[[Mapping[str, Any]], None]
) -> AllocationParts:
    """Return the parts of a server with the configuration of the moment; `record` is told of each answer.

    Raises Refused or Failed where a kubeconfig is given that is of no use.
    """
    if kubeconfig is not None:
        find_access(kubeconfig)  # whether the service is on now or later
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
        try:
            cluster()
        except DravirtError as error:  # admission does without; who asks is told as well
            _log.warning("the allocation service: %s", error.message, extra={"fields": {"reason": error.reason}})
    return AllocationParts(
        allocations_router(lambda: service if is_on() else None, record),
        lambda: cluster() if is_on() else None,
    )
