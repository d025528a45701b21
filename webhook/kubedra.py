"""What dravirt asks the API server: pods, tokens, and the objects of Dynamic Resource Allocation in any version.

The version of `resource.k8s.io` is found by discovery and kept. That is safe: the paths of a version that vanishes with
an upgrade are not served any more, and then discovery is asked again. Nothing else is kept.
"""

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from dra.errors import Failed
from dra.reasons import Reason
from webhook.decision import RawObject
from webhook.kubeaccess import NotServed
from webhook.raw import mapping, mappings

if TYPE_CHECKING:
    from webhook.kubeclient import KubeClient  # (httpx, 10 MiB)

VERSIONS = ("v1", "v1beta2", "v1beta1")
"""Of `resource.k8s.io`, the best first. Source: k8s.io/dynamic-resource-allocation/client."""
PAGE = 50
"""Slices in one answer: some 40 kB each where they are full."""
MAX_PAGES = 20
"""Of one list. A node has a few slices of a driver, a pool in the network rarely more than a hundred."""
_GROUP = "/apis/resource.k8s.io"


class Cluster:
    """The objects of one cluster."""

    def __init__(self, client: "KubeClient", versions: Sequence[str] = VERSIONS) -> None:
        """Ask by `client`, in one of `versions`, the first that is served."""
        self._client = client
        self._versions = versions
        self._version: str | None = None

    async def review_token(self, review: RawObject) -> RawObject:
        """Return the TokenReview with its status."""
        return await self._client.post("/apis/authentication.k8s.io/v1/tokenreviews", review)

    async def pod(self, namespace: str, name: str) -> RawObject | None:
        """Return a pod, None where there is none."""
        return await self._client.get(f"/api/v1/namespaces/{namespace}/pods/{name}")

    async def claim(self, namespace: str, name: str) -> RawObject | None:
        """Return a ResourceClaim, None where there is none. Its status is the same in all versions."""
        return await self._get(f"namespaces/{namespace}/resourceclaims/{name}")

    async def template(self, namespace: str, name: str) -> RawObject | None:
        """Return a ResourceClaimTemplate, None where there is none."""
        return await self._get(f"namespaces/{namespace}/resourceclaimtemplates/{name}")

    async def names(self, plural: str, namespace: str) -> list[str]:
        """Return the names of up to a page of claims or templates."""
        found = await self._get(f"namespaces/{namespace}/{plural}", limit=str(PAGE)) or {}
        return [str(mapping(item, "metadata").get("name")) for item in mappings(found, "items")]

    async def device_class(self, name: str) -> RawObject | None:
        """Return a DeviceClass, None where there is none."""
        return await self._get(f"deviceclasses/{name}")

    async def slices(self, selector: str, *, page: int = PAGE) -> AsyncIterator[list[RawObject]]:
        """Yield the ResourceSlices that the field `selector` selects, page by page.

        All pages are of one moment. Raises Failed where there are more than MAX_PAGES.
        """
        params = {"fieldSelector": selector, "limit": str(page)}
        for _ in range(MAX_PAGES):
            found = await self._get("resourceslices", **params) or {}
            yield [*mappings(found, "items")]
            more = mapping(found, "metadata").get("continue")
            if not isinstance(more, str) or not more:
                return
            params["continue"] = more
        raise Failed(Reason.API_UNAVAILABLE, f"more than {MAX_PAGES * page} ResourceSlices are selected by {selector}")

    async def _get(self, path: str, **params: str) -> RawObject | None:
        """Return what is at `path` of the group, None where there is nothing. Raises Failed."""
        version = self._version or await self._discover()
        try:
            return await self._client.get(f"{_GROUP}/{version}/{path}", params)
        except NotServed:
            served = await self._discover()
            if served == version:
                raise
            return await self._client.get(f"{_GROUP}/{served}/{path}", params)

    async def _discover(self) -> str:
        try:
            group = await self._client.get(_GROUP) or {}
        except NotServed:
            group = {}
        served = [each.get("version") for each in mappings(group, "versions")]
        self._version = next((version for version in self._versions if version in served), None)
        if self._version is None:
            known, there = ", ".join(self._versions), ", ".join(map(str, served)) or "none"
            raise Failed(Reason.API_UNAVAILABLE, f"the API server serves no resource.k8s.io of {known}: it has {there}")
        return self._version
