"""The claims of a launcher pod: those that its sidecar refers to, and which ResourceClaim each of them is.

Source: k8s.io/dynamic-resource-allocation/resourceclaim, Name and IsForPod.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dra.contract import DEVICES_ANNOTATION, INJECTED_LABEL, SIDECAR_CONTAINER
from dra.errors import Failed, Refused
from dra.names import is_dns_label, is_dns_subdomain
from dra.reasons import Reason
from webhook.allocations.caller import Caller
from webhook.annotation import annotation_of
from webhook.decision import RawObject
from webhook.launcher import is_launcher
from webhook.raw import labels, mapping, mappings, name_of, named

ENDED = ("Succeeded", "Failed")
"""The phases of a pod whose containers have ended for good."""


@dataclass(frozen=True, slots=True)
class OwnClaim:
    """A claim of the pod: its name in the pod, and the ResourceClaim's."""

    pod_claim: str
    name: str
    is_generated: bool
    """Made from a template for this pod alone."""


def check_pod(pod: RawObject | None, caller: Caller) -> RawObject:
    """Return the caller's pod, None where there is none of its name. Raises Refused where it is not the one."""
    if pod is None or mapping(pod, "metadata").get("uid") != caller.uid:
        raise Refused(Reason.POD_MISMATCH, f"the pod {caller.pod!r} of this token is not there any more")
    if mapping(pod, "spec").get("nodeName") != caller.node:
        raise Refused(Reason.POD_MISMATCH, f"the pod {caller.pod!r} does not run on the node of the token")
    if mapping(pod, "status").get("phase") in ENDED:
        raise Refused(Reason.POD_MISMATCH, f"the pod {caller.pod!r} has ended")
    if annotation_of(pod) is None:
        raise Refused(Reason.NOT_OPTED_IN, f"the pod {caller.pod!r} carries no {DEVICES_ANNOTATION}")
    if not is_launcher(pod):
        raise Refused(Reason.NOT_A_LAUNCHER, f"the pod {caller.pod!r} is no virt-launcher pod of a VMI")
    if labels(pod).get(INJECTED_LABEL) != "true" or _sidecar(pod) is None:
        raise Refused(Reason.SIDECAR_MISSING, f"the pod {caller.pod!r} has no container {SIDECAR_CONTAINER}")
    return pod


def own_claims(pod: RawObject) -> tuple[OwnClaim, ...]:
    """Return the claims that the pod's sidecar refers to, in the order of the pod.

    Raises Refused where there is none, Failed where one was not made from its template yet.
    """
    wanted = {name_of(claim) for claim in mappings(_sidecar(pod) or {}, "resources", "claims")}
    entries = [entry for entry in mappings(pod, "spec", "resourceClaims") if name_of(entry) in wanted]
    if not entries:
        raise Refused(Reason.CLAIM_MISSING, f"the container {SIDECAR_CONTAINER} refers to no claim of its pod")
    statuses = mappings(pod, "status", "resourceClaimStatuses")
    return tuple(_own(entry, statuses) for entry in entries)


def check_owner(claim: RawObject | None, own: OwnClaim, caller: Caller) -> RawObject:
    """Return the ResourceClaim of `own`, None where there is none. Raises Refused where it is not this pod's.

    A claim made from a template is controlled by its pod; any other with its name is somebody else's.
    """
    if claim is None:
        message = f"there is no ResourceClaim {own.name!r} in namespace {caller.namespace!r}"
        raise Refused(Reason.CLAIM_MISSING, message)
    owners = mappings(claim, "metadata", "ownerReferences")
    if own.is_generated and not any(
        owner.get("controller") is True and owner.get("uid") == caller.uid for owner in owners
    ):
        message = f"ResourceClaim {own.name!r} was not made for the pod {caller.pod!r}"
        raise Refused(Reason.CLAIM_MISSING, message)
    return claim


def _sidecar(pod: RawObject) -> RawObject | None:
    containers = mappings(pod, "spec", "initContainers")
    index = named(containers, SIDECAR_CONTAINER)
    return None if index is None else containers[index]


def _own(entry: Mapping[str, object], statuses: Sequence[Mapping[str, object]]) -> OwnClaim:
    pod_claim = name_of(entry)
    direct = entry.get("resourceClaimName")
    if isinstance(direct, str):
        return _checked(OwnClaim(pod_claim, direct, is_generated=False))
    index = named(list(statuses), pod_claim)
    generated = None if index is None else statuses[index].get("resourceClaimName")
    if not isinstance(generated, str):
        message = f"no ResourceClaim was made yet for {pod_claim!r}: see the pod's events"
        raise Failed(Reason.NOT_ALLOCATED, message)
    return _checked(OwnClaim(pod_claim, generated, is_generated=True))


def _checked(own: OwnClaim) -> OwnClaim:
    """Return `own`. Names become part of a path: the API server checked them, and so do we."""
    if not is_dns_label(own.pod_claim) or not is_dns_subdomain(own.name):
        raise Refused(Reason.CLAIM_MISSING, "the pod names a claim that cannot exist")
    return own
