"""The API server's side of a driver: its ResourceSlices, and the claims that it prepares."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from cluster.api import Api, ApiError
from cluster.driver.prepared import Claim
from cluster.driver.settings import Settings

log = logging.getLogger(__name__)
VERSION = "resource.k8s.io/v1"


class Publication:
    """The slices of one driver on one node."""

    def __init__(self, api: Api, node: str) -> None:
        self._api, self._node, self._generation = api, node, 0

    def publish(self, settings: Settings, *, changed: bool) -> None:
        """Make the slices what the settings say, in a new generation where they changed.

        The kubelet deletes a driver's slices when it starts and when the driver is away: an unchanged set is put back.
        """
        found = {each["metadata"]["name"]: each for each in self._slices(settings.driver)}
        wanted = self._wanted(settings, self._generation + 1 if changed else self._generation)
        if not changed and found.keys() == {each["metadata"]["name"] for each in wanted}:
            return
        self._generation += changed
        for name in found.keys() - {each["metadata"]["name"] for each in wanted}:
            self._api.delete(found[name])
        for each in wanted:
            self._api.apply(each, manager=settings.driver)
        log.info("published %d slices in generation %d", len(wanted), self._generation)

    def withdraw(self, driver: str) -> None:
        """Delete the driver's slices."""
        for each in self._slices(driver):
            self._api.delete(each)

    def find_claim(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Return a ResourceClaim, None where it is gone."""
        return self._api.get(VERSION, "ResourceClaim", name, namespace)

    def write_status(self, claim: Claim, entries: Sequence[Mapping[str, Any]]) -> None:
        """Write the driver's entries of a claim's `status.devices`."""
        metadata = {"name": claim.name, "namespace": claim.namespace}
        item = {"apiVersion": VERSION, "kind": "ResourceClaim", "metadata": metadata}
        try:
            self._api.merge(item, {"status": {"devices": list(entries)}}, subresource="status")
        except ApiError as error:
            log.warning("claim %s: status.devices not written: %s", claim.name, error)

    def _slices(self, driver: str) -> list[dict[str, Any]]:
        path = self._api.path(VERSION, "ResourceSlice")
        selector = f"spec.driver={driver},spec.nodeName={self._node}"
        items: list[dict[str, Any]] = self._api.request("GET", path, params={"fieldSelector": selector})["items"]
        return [{"apiVersion": VERSION, "kind": "ResourceSlice", **each} for each in items]

    def _wanted(self, settings: Settings, generation: int) -> list[dict[str, Any]]:
        pools = [each["pool"] for each in settings.slices]
        return [
            {
                "apiVersion": VERSION,
                "kind": "ResourceSlice",
                "metadata": {"name": f"{self._node}-{settings.driver}-{index}"},
                "spec": {
                    **{name: value for name, value in piece.items() if name != "pool"},
                    "driver": settings.driver,
                    "nodeName": self._node,
                    "pool": {
                        "name": piece["pool"],
                        "generation": generation,
                        "resourceSliceCount": pools.count(piece["pool"]),
                    },
                },
            }
            for index, piece in enumerate(settings.slices)
        ]
