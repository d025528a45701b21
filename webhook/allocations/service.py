"""The allocation service itself: from a token to the devices of its pod, by a bounded number of bounded questions.

Nothing is kept between two answers, and tokens least of all: a token ends with its pod, and only a review made now says
whether it has.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dra.allocation import AllocatedDevice
from dra.attributes import AttributeTable
from dra.contract import MAX_DEVICES
from dra.errors import Failed, Refused
from dra.reasons import Reason
from webhook.allocations.caller import Caller, read_caller, token_review
from webhook.allocations.gate import Gate
from webhook.allocations.podclaims import OwnClaim, check_owner, check_pod, own_claims
from webhook.allocations.pools import PoolName, pool_devices, pool_of
from webhook.allocations.reservation import MAX_RIVALS, has_left, held, rivals, too_many
from webhook.allocations.results import Pools, allocated_devices, pools_to_ask, with_attributes
from webhook.decision import RawObject
from webhook.kubedra import Cluster

SECONDS = 4.0
"""For one answer, the wait for its turn included: less than the sidecar waits for it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Who asked, and the devices of each of its pod claims."""

    caller: Caller
    pod_claims: Mapping[str, Sequence[AllocatedDevice]]


class AllocationService:
    """Answers which devices a pod was allocated."""

    def __init__(self, cluster: Callable[[], Cluster], table: Callable[[], AttributeTable], gate: Gate) -> None:
        """Ask the `cluster`, which is made when it is first needed; `table` names the attributes of the moment."""
        self._cluster = cluster
        self._table = table
        self._gate = gate

    async def answer(self, token: str) -> Answer:
        """Return the devices of the pod that `token` was made for, and of no other.

        Raises Refused where it is to have none, Failed where a retry may help.
        """
        try:
            async with asyncio.timeout(SECONDS), self._gate:
                return await self._answer(self._cluster(), token)
        except TimeoutError as error:
            message = f"there was no answer within {SECONDS:g} s"
            raise Failed(Reason.API_UNAVAILABLE, message) from error

    async def _answer(self, cluster: Cluster, token: str) -> Answer:
        caller = read_caller(await cluster.review_token(token_review(token)))
        pod = check_pod(await cluster.pod(caller.namespace, caller.pod), caller)
        devices = {own.pod_claim: await _allocated(cluster, caller, own) for own in own_claims(pod)}
        count = sum(map(len, devices.values()))
        if count > MAX_DEVICES:
            raise Refused(Reason.WRONG_COUNT, f"the claims yield {count} devices, a VM can have {MAX_DEVICES}")
        table = self._table()
        wanted = {pool for each in devices.values() for pool in pools_to_ask(each, table)}
        pools = await _pools(cluster, wanted, caller.node)
        whole = {name: [with_attributes(device, pools, table) for device in of] for name, of in devices.items()}
        return Answer(caller, whole)


async def _allocated(cluster: Cluster, caller: Caller, own: OwnClaim) -> tuple[AllocatedDevice, ...]:
    """Return the devices of one claim of the caller. Raises DravirtError, not only where another pod has it."""
    claim = check_owner(await cluster.claim(caller.namespace, own.name), own, caller)
    devices = allocated_devices(claim)
    await _check_turn(cluster, claim, caller, own)
    return devices


async def _check_turn(cluster: Cluster, claim: RawObject, caller: Caller, own: OwnClaim) -> None:
    """Raise where one that came before the caller's pod still has the claim."""
    before = rivals(claim, caller.uid)
    for rival in before[:MAX_RIVALS]:
        pod = await cluster.pod(caller.namespace, rival.name) if rival.is_pod else None
        if not has_left(rival, pod):
            raise held(own.name, rival, pod)
    if len(before) > MAX_RIVALS:
        raise too_many(own.name)


async def _pools(cluster: Cluster, wanted: Iterable[PoolName], node: str) -> Pools:
    """Return the attributes of the devices in the `wanted` pools. Raises Failed where one is not complete."""
    by_driver: dict[str, list[PoolName]] = {}
    for pool in wanted:
        by_driver.setdefault(pool.driver, []).append(pool)
    found: dict[PoolName, Mapping[str, Mapping[str, object]]] = {}
    for driver, pools in by_driver.items():
        found |= await _pools_of(cluster, driver, pools, node)
    return found


async def _pools_of(
    cluster: Cluster, driver: str, pools: Sequence[PoolName], node: str
) -> dict[PoolName, Mapping[str, Mapping[str, object]]]:
    """Ask for the slices of the node, then for those of none (a pool in the network), then for all of the driver."""
    slices: list[RawObject] = []
    selectors = (f"spec.driver={driver},spec.nodeName={node}", f"spec.driver={driver},spec.nodeName=")
    for selector in (*selectors, f"spec.driver={driver}"):
        async for page in cluster.slices(selector):
            slices += [each for each in page if pool_of(each) in pools]
        try:
            return {pool: pool_devices(slices, pool) for pool in pools}
        except Failed as error:
            incomplete = error
    raise incomplete
