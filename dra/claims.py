"""Pod claims: how the device requests of a VM become claims of its launcher pod.

One pod claim per ResourceClaim, not per device: a pod with two pod claims on one ResourceClaim is never scheduled,
since its devices are counted twice.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from dra.contract import POD_CLAIM_PREFIX
from dra.errors import Refused
from dra.reasons import Reason
from dra.request import DeviceRequest


@dataclass(frozen=True, slots=True)
class PodClaim:
    """An entry of `pod.spec.resourceClaims` and the device requests that it serves."""

    name: str
    template: str | None
    claim: str | None
    requests: tuple[DeviceRequest, ...]

    def as_pod_claim(self) -> dict[str, str]:
        """Return the entry of `pod.spec.resourceClaims`. Source: k8s.io/api/core/v1, PodResourceClaim."""
        if self.claim is not None:
            return {"name": self.name, "resourceClaimName": self.claim}
        return {"name": self.name, "resourceClaimTemplateName": str(self.template)}

    def as_container_claims(self) -> list[dict[str, str]]:
        """Return the entries of a container's `resources.claims`: the whole claim, or one per request."""
        names = [request.base_request for request in self.requests]
        return [{"name": self.name} if name is None else {"name": self.name, "request": name} for name in names]


def pod_claims(requests: Iterable[DeviceRequest], *, path: str) -> tuple[PodClaim, ...]:
    """Return the pod claims for the device requests of one VM, in the order of their first devices.

    Entries with one `resourceClaimName` share a pod claim; entries with one template and different requests share one;
    a template entry without a request has its own. Raises Refused where two entries would take the same devices.
    """
    groups: dict[object, list[DeviceRequest]] = {}
    for index, request in enumerate(requests):
        group = groups.setdefault(_group_key(index, request), [])
        for other in group:
            _check_apart(request, other, f"{path}[{index}]")
        group.append(request)
    return tuple(
        PodClaim(POD_CLAIM_PREFIX + group[0].device_names[0], group[0].template, group[0].claim, tuple(group))
        for group in groups.values()
    )


def _group_key(index: int, request: DeviceRequest) -> object:
    if request.claim is not None:
        return "claim", request.claim
    if request.request is not None:
        return "template", request.template
    return index


def _check_apart(request: DeviceRequest, other: DeviceRequest, path: str) -> None:
    source = f"claim {request.claim!r}" if request.claim is not None else f"template {request.template!r}"
    if request.base_request is None or other.base_request is None:
        if request.base_request == other.base_request:
            message = f"takes all devices of {source}, as {other.name!r} does: use one entry with a count"
        else:
            message = (
                f"one of {request.name!r} and {other.name!r} takes all devices of {source}: name a request in both"
            )
        raise Refused(Reason.INVALID_ANNOTATION, message, path=path)
    if request.base_request == other.base_request:
        message = (
            f"takes request {request.base_request!r} of {source}, as {other.name!r} does: use one entry with a count"
        )
        raise Refused(Reason.INVALID_ANNOTATION, message, path=f"{path}.request")
