"""Look-ups at admission: what an annotation names should be there, so that a typo shows at once.

A warning at most, and within a fraction of a second: whether the API server answers or not, the VM is admitted. Only
VMs and VMIs are looked at; the path of a launcher pod never waits for the API server.
"""

import asyncio
import difflib
import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

from dra.claims import PodClaim
from dra.errors import DravirtError, Refused
from dra.names import is_dns_label, is_dns_subdomain
from dra.reasons import Reason
from webhook.annotation import annotation_of, read_asked
from webhook.decision import AdmissionRequest, Decision, RawObject
from webhook.kubedra import Cluster
from webhook.raw import annotations, mapping, mappings

SECONDS = 0.3
"""For all look-ups of one admission, which has 5 s."""
MAX_CLAIMS = 4
"""Claims that are looked up: a VM has one or two."""

AT_ONCE = 8
"""Admissions that are looked up for at a time: the rest goes without, since each holds its object while it waits."""

LookUp = Callable[[AdmissionRequest, Decision], Awaitable[tuple[str, ...]]]
"""Returns the warnings about what an admitted object asks for."""

_log = logging.getLogger(__name__)

_TAKES_EFFECT = (Reason.ACCEPTED, Reason.COPIED, Reason.PLACEHOLDERS_ADDED)
POD_CLAIM_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
"""On a claim that a controller made from a template: its driver puts the metadata below the pod claim's name.

On a claim that is named directly, a copy of such a one, it says nothing true, and the sidecar cannot know the name.
Source: k8s.io/dynamic-resource-allocation/kubeletplugin, metadata.go.
"""
# A device class or request selects a driver by CEL. Source: k8s.io/api/resource/v1, CELDeviceSelector.
_DRIVER = re.compile(r"""device\.driver\s*==\s*["']([^"']{1,253})["']""")


def look_ups(cluster: Callable[[], Cluster | None]) -> LookUp:
    """Return what looks up in the `cluster`; where it gives None, nothing is looked up."""
    room = asyncio.Semaphore(AT_ONCE)

    async def look_up(request: AdmissionRequest, decision: Decision) -> tuple[str, ...]:
        if decision.reason not in _TAKES_EFFECT or not is_dns_label(request.namespace) or room.locked():
            return ()
        try:
            api = cluster()
        except DravirtError:
            return ()
        if api is None:
            return ()
        async with room:
            return await _look_up_all(api, request.namespace, _claims(request, decision))

    return look_up


async def _look_up_all(cluster: Cluster, namespace: str, claims: list[PodClaim]) -> tuple[str, ...]:
    """Return what is found until the time is over. That the API server fails must not be noticed here."""
    tasks = [asyncio.create_task(_look_up(cluster, namespace, claim)) for claim in claims]
    if not tasks:
        return ()
    _, late = await asyncio.wait(tasks, timeout=SECONDS)
    for task in late:
        task.cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception) and not isinstance(outcome, DravirtError):
            _log.error("a look-up failed: a defect", exc_info=outcome)  # not one for which a VM is denied
    return tuple(line for outcome in outcomes if isinstance(outcome, list) for line in outcome)


def _claims(request: AdmissionRequest, decision: Decision) -> list[PodClaim]:
    """Return the claims of the annotation that takes effect, each template or claim once."""
    item = request.object
    if request.kind == "VirtualMachine" and decision.reason is not Reason.COPIED:
        item = mapping(item, "spec", "template")
    try:
        asked = read_asked(annotation_of(item), "")
    except Refused:
        return []  # a stored value, of which another warning tells
    return list({(claim.template, claim.claim): claim for claim in asked.claims}.values())[:MAX_CLAIMS]


async def _look_up(cluster: Cluster, namespace: str, claim: PodClaim) -> list[str]:
    if claim.claim is not None:
        kind, plural, name = "ResourceClaim", "resourceclaims", claim.claim
        found = await cluster.claim(namespace, name)
    else:
        kind, plural, name = "ResourceClaimTemplate", "resourceclaimtemplates", str(claim.template)
        found = await cluster.template(namespace, name)
    if found is None:
        return [f"there is no {kind} {name!r:.70} here{await _near(cluster, plural, namespace, name)}"]
    drivers = await _drivers(cluster, mapping(found, "spec", "spec") or mapping(found, "spec"))
    silent = [driver for driver in drivers if not await _publishes(cluster, driver)]
    lines = [f"{kind} {name!r:.50}: driver {driver:.60} publishes no device" for driver in silent]
    if claim.claim is not None and POD_CLAIM_ANNOTATION in annotations(found):
        lines.append(f"ResourceClaim {name!r:.50}: {POD_CLAIM_ANNOTATION} hides its metadata: remove that annotation")
    return lines


async def _near(cluster: Cluster, plural: str, namespace: str, name: str) -> str:
    """Return a hint at names like this one, none where dravirt may not list them."""
    with suppress(DravirtError):
        near = difflib.get_close_matches(name, await cluster.names(plural, namespace), n=2)
        return f": did you mean {' or '.join(near):.120}?" if near else ""
    return ""


async def _drivers(cluster: Cluster, spec: RawObject) -> list[str]:
    """Return the drivers that a claim's spec is known to need: nothing names them but selectors and parameters."""
    drivers = [str(mapping(each, "opaque").get("driver")) for each in mappings(spec, "devices", "config")]
    for request in _requests(spec):
        drivers += _selected(request)
        name = request.get("deviceClassName")
        if isinstance(name, str) and is_dns_subdomain(name):
            with suppress(DravirtError):  # where dravirt may not read device classes
                drivers += _selected(mapping(await cluster.device_class(name) or {}, "spec"))
    return [driver for driver in dict.fromkeys(drivers) if is_dns_subdomain(driver)][:MAX_CLAIMS]


def _requests(spec: RawObject) -> Iterator[RawObject]:
    """Yield the requests that must be met: under `exactly`, in v1beta1 flat; of alternatives any will do."""
    for request in mappings(spec, "devices", "requests"):
        yield mapping(request, "exactly") or request


def _selected(selectors: RawObject) -> list[str]:
    expressions = (mapping(each, "cel").get("expression") for each in mappings(selectors, "selectors"))
    return [driver for text in expressions if isinstance(text, str) for driver in _DRIVER.findall(text)]


async def _publishes(cluster: Cluster, driver: str) -> bool:
    async for page in cluster.slices(f"spec.driver={driver}", page=1):
        return bool(page)
    return False
