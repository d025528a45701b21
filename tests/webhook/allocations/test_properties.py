"""Whatever a cluster holds, an answer never holds a device of another pod."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from support.allocations import NODE, Raw, claim, mdevs, pod, resource_slice, result, review_status

from dra.answer import answer_to_json, read_answer
from dra.errors import DravirtError
from webhook.allocations.gate import Gate
from webhook.allocations.service import AllocationService

PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
DEVICES = 16


@dataclass
class Held:
    """A cluster's objects in memory, asked as `webhook.kubedra.Cluster` is. Tokens are uids."""

    pods: dict[str, Raw] = field(default_factory=dict)
    tokens: dict[str, Raw] = field(default_factory=dict)
    claims: dict[str, Raw] = field(default_factory=dict)

    async def review_token(self, review):
        return {**review, "status": self.tokens.get(review["spec"]["token"], {"authenticated": False})}

    async def pod(self, _namespace, name):
        return self.pods.get(name)

    async def claim(self, _namespace, name):
        return self.claims.get(name)

    async def slices(self, _selector):
        yield [resource_slice(devices=mdevs(DEVICES))]


names = st.sampled_from(["a", "b", "c", "d"])
claim_names = st.sampled_from(["a-gpu0", "b-gpu0", "c-gpu0", "shared", "mine"])


@st.composite
def clusters(draw):
    """Pods that name each other's claims, claims that name each other's pods; each device is allocated once."""
    held = Held()
    for name in draw(st.sets(names, min_size=1)):
        generated = draw(st.dictionaries(st.sampled_from(["dravirt-g", "dravirt-h"]), claim_names, max_size=2))
        direct = draw(st.dictionaries(st.sampled_from(["dravirt-x", "dravirt-y"]), claim_names, max_size=2))
        more = {"phase": draw(st.sampled_from(PHASES)), "terminating": draw(st.booleans())}
        held.pods[name] = pod(name, templates=generated, claims=direct, **more)
        held.tokens[f"uid-{name}"] = review_status(held.pods[name])
    # Tokens of pods that are gone, or were made again.
    for name in draw(st.sets(names)):
        held.tokens[f"old-{name}"] = review_status(pod(name, uid=f"old-{name}"))
    devices = iter(draw(st.permutations(range(DEVICES))))
    for name in draw(st.sets(claim_names)):
        owner = draw(st.sampled_from([None, *held.pods.values()]))
        reserved = draw(st.permutations([*held.pods.values(), pod("gone")]))[: draw(st.integers(0, 4))]
        results = [result(f"v{next(devices)}") for _ in range(draw(st.integers(1, 3)))]
        held.claims[name] = claim(name, *results, owner=owner, reserved=reserved)
    return held


def ask(held, token):
    return asyncio.run(AllocationService(lambda: held, dict, Gate()).answer(token)).pod_claims


def own_devices(held, item):
    """Return what a pod may learn: the devices of the claims that it names and has reserved."""
    named = {each.get("resourceClaimName") for each in item["spec"]["resourceClaims"]}
    named |= {each["resourceClaimName"] for each in item["status"]["resourceClaimStatuses"]}
    own = set()
    for name in named & held.claims.keys():
        status = held.claims[name]["status"]
        if item["metadata"]["uid"] in [each["uid"] for each in status["reservedFor"]]:
            own |= {each["device"] for each in status["allocation"]["devices"]["results"]}
    return own


@settings(max_examples=400, deadline=None)
@given(clusters())
def test_an_answer_never_holds_a_device_of_another_pod(held):
    living: Counter[str] = Counter()
    for token in held.tokens:
        try:
            devices = ask(held, token)
        except DravirtError:
            continue
        item = held.pods[token.removeprefix("uid-")]
        learnt = {each.device for of in devices.values() for each in of}
        assert learnt <= own_devices(held, item)
        assert {each.pool for of in devices.values() for each in of} == {NODE}
        living.update(learnt)
    # One vGPU, one VM.
    assert all(count == 1 for count in living.values()), living


@settings(max_examples=200, deadline=None)
@given(clusters())
def test_of_the_pods_that_wait_for_a_claim_one_is_answered(held):
    """Nobody starves: a claim whose pods live, and use nothing else, has exactly one that gets it."""
    for name, item in held.claims.items():
        lone = Held(pods={}, tokens={}, claims={name: item | {"metadata": {"name": name}}})
        users = [
            pod(each["name"], uid=each["uid"], claims={"dravirt-x": name}) for each in item["status"]["reservedFor"]
        ]
        for each in users:
            lone.pods[each["metadata"]["name"]] = each
            lone.tokens[each["metadata"]["uid"]] = review_status(each)
        answered = 0
        for token in lone.tokens:
            try:
                answered += bool(ask(lone, token))
            except DravirtError:
                continue
        assert answered == min(1, len(users))


@given(clusters())
def test_what_is_answered_is_read_as_it_was_meant(held):
    import json

    for token in held.tokens:
        try:
            devices = ask(held, token)
        except DravirtError:
            continue
        text = json.dumps(answer_to_json(devices)).encode()
        assert read_answer(text, path="answer") == {name: tuple(of) for name, of in devices.items()}
