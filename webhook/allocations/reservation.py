"""Who has a claim: one vGPU, one VM.

Kubernetes lets up to 256 pods share a claim. A VM cannot share its device, so a claim belongs to the first pod in
`status.reservedFor` that is there and has not ended: the list keeps the order in which pods came, so each gets its turn
and nobody starves. Source: k8s.io/api/resource/v1, ResourceClaimConsumerReference.
"""

from dataclasses import dataclass

from dra.errors import DravirtError, Failed, Refused
from dra.names import is_dns_subdomain
from dra.reasons import Reason
from webhook.allocations.podclaims import ENDED
from webhook.decision import RawObject
from webhook.raw import mapping, mappings, name_of

MAX_RIVALS = 8
"""How many of those before us are looked at in one answer: who has ended leaves the list within seconds."""


@dataclass(frozen=True, slots=True)
class Rival:
    """A consumer of the claim that came before the pod."""

    name: str
    uid: str
    is_pod: bool


def rivals(claim: RawObject, pod_uid: str) -> tuple[Rival, ...]:
    """Return who reserved the claim before the pod `pod_uid`, first come first. Raises Failed where that did not."""
    consumers = mappings(claim, "status", "reservedFor")
    before: list[Rival] = []
    for each in consumers:
        if each.get("uid") == pod_uid:
            return tuple(before)
        name = name_of(each)
        is_pod = each.get("resource") == "pods" and not each.get("apiGroup") and is_dns_subdomain(name)
        before.append(Rival(name, str(each.get("uid")), is_pod))
    claim_name = name_of(mapping(claim, "metadata"))
    raise Failed(Reason.NOT_RESERVED, f"ResourceClaim {claim_name!r} is not reserved for this pod (yet)")


def has_left(rival: Rival, pod: RawObject | None) -> bool:
    """True if the rival's pod is gone or has ended; `pod` is the one that has its name now."""
    if not rival.is_pod:
        return False
    return (
        pod is None or mapping(pod, "metadata").get("uid") != rival.uid or mapping(pod, "status").get("phase") in ENDED
    )


def held(claim_name: str, rival: Rival, pod: RawObject | None) -> DravirtError:
    """Return the error that says who has the claim, to be raised: to be retried where the holder is about to leave."""
    what = "pod" if rival.is_pod else "workload"
    message = f"ResourceClaim {claim_name!r} is held by {what} {rival.name[:253]!r}, which came first"
    if rival.is_pod and mapping(pod or {}, "metadata").get("deletionTimestamp"):
        return Failed(Reason.CLAIM_HELD, f"{message} and is terminating")
    return Refused(Reason.CLAIM_HELD, f"{message}: stop it, or use a claim template, which makes a claim for each VM")


def too_many(claim_name: str) -> Failed:
    """Return the error for a claim whose line is too long to look at, to be raised."""
    return Failed(Reason.CLAIM_HELD, f"ResourceClaim {claim_name!r} has more than {MAX_RIVALS} pods before this one")
