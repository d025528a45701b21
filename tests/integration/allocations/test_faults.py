"""While the API server refuses, is slow or restarts, and while the service dies: the right answer, or come again."""

import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from cluster import machines
from cluster.controlplane import WEBHOOK
from cluster.dravirt import allocation_rights
from cluster.process import until
from integration.allocations.conftest import PORT
from integration.allocations.questions import Questions
from integration.allocations.site import found, is_late

from dra.errors import Failed
from dra.reasons import Reason

DRIVER = "vgpu.faults.example"
UUIDS = [f"5f0e2a54-6c1d-4b7a-9f33-{number:012x}" for number in range(4)]


@pytest.fixture
def pods(site):
    """Tokens of pods with a device each, and the answer that is right for each."""
    devices = [{"name": f"v{n}", "attributes": {"mdevUUID": {"string": uuid}}} for n, uuid in enumerate(UUIDS)]
    site.publish(DRIVER, *devices)
    site.template("t", machines.request(DRIVER))
    pods = [site.pod(f"vm{n}", gpu0={"resourceClaimTemplateName": "t"}) for n in range(len(UUIDS))]
    right = {}
    for pod in pods:
        (claim,) = site.claims_of(pod)
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        right[site.token(pod)] = {"dravirt-gpu0": [("gpu", result["device"], UUIDS[int(result["device"][1:])])]}
    assert {token: found(site.answered(token)) for token in right} == right
    return right


def check(questions, right, *reasons, in_time=False):
    """Nobody got a device of another; who got none was told one of `reasons`, and to come again.

    With `in_time` nobody may have been told that time was up either.
    """
    for token, outcomes in questions.outcomes.items():
        assert all(found(each) == right[token] for each in outcomes if not isinstance(each, Exception))
    errors = questions.errors if in_time else questions.told
    assert {(type(each), each.reason) for each in errors} <= {(Failed, reason) for reason in reasons}


# Refusing.


@pytest.mark.parametrize("resource", ["tokenreviews", "pods", "resourceclaims", "resourceslices"])
def test_a_right_that_is_missing_is_named_and_when_it_is_there_the_pod_is_answered(site, pods, stack, resource):
    role, _ = allocation_rights()
    rest = [rule for rule in role["rules"] if resource not in rule["resources"]]
    rest += [
        {**rule, "resources": [each for each in rule["resources"] if each != resource]}
        for rule in role["rules"]
        if resource in rule["resources"] and len(rule["resources"]) > 1
    ]
    token = next(iter(pods))
    stack.api.apply({**role, "rules": rest})
    try:
        said = until(lambda: _error(site, token), seconds=60, what="the right withdrawn")
    finally:
        stack.api.apply(role)
    assert isinstance(said, Failed)
    assert said.reason is Reason.API_UNAVAILABLE
    assert "403" in said.message
    assert resource in said.message
    assert found(site.answered(token)) == pods[token]


def test_without_the_binding_nothing_is_answered_until_it_is_back(site, pods, stack):
    _, binding = allocation_rights()
    token = next(iter(pods))
    stack.api.delete(binding)
    try:
        said = until(lambda: _error(site, token), seconds=60, what="the rights withdrawn")
    finally:
        stack.api.apply(binding)
    assert (type(said), said.reason) == (Failed, Reason.API_UNAVAILABLE)
    assert "403" in said.message
    assert found(site.answered(token)) == pods[token]


def _error(site, token):
    outcome = site.outcome(token)
    return outcome if isinstance(outcome, Exception) and not is_late(outcome) else None


@contextmanager
def one_at_a_time(site):
    """Let the API server take one request of the webhook at a time, and refuse others with 429.

    With no share of its concurrency there is still one. Source: k8s.io/apiserver, flowcontrol/fairqueuing/queueset.
    """
    flow = {"apiVersion": "flowcontrol.apiserver.k8s.io/v1"}
    limited = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0}
    level = flow | {
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": "narrow"},
        "spec": {"type": "Limited", "limited": {**limited, "limitResponse": {"type": "Reject"}}},
    }
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
    rule = {
        "subjects": [{"kind": "User", "user": {"name": WEBHOOK}}],
        "resourceRules": [everything],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }
    spec = {"priorityLevelConfiguration": {"name": "narrow"}, "matchingPrecedence": 10, "rules": [rule]}
    schema = flow | {"kind": "FlowSchema", "metadata": {"name": "narrow"}, "spec": spec}
    site.api.apply(level)
    site.api.apply(schema)
    try:
        yield
    finally:
        site.api.delete(schema)
        site.api.delete(level)


def test_of_many_questions_to_a_busy_api_server_each_is_answered_or_told_to_come_again(site, pods):
    with one_at_a_time(site), Questions(site, pods) as questions:
        questions.wait_for(lambda it: any("429" in each.message for each in it.errors), "a request refused")
        questions.wait_for_answers(3)
    check(questions, pods, Reason.API_UNAVAILABLE)


# Slow.


def test_an_api_server_that_stands_still_is_given_up_in_time(site, pods, api_server):
    token = next(iter(pods))
    with api_server.standing_still():
        said = site.outcome(token)  # (the sidecar's own patience is longer than the service's)
    assert (type(said), said.reason) == (Failed, Reason.API_UNAVAILABLE)
    assert "no answer within" in said.message
    assert found(site.answered(token)) == pods[token]


def test_an_api_server_that_stands_still_for_a_moment_costs_a_moment(site, pods, api_server):
    token = next(iter(pods))
    with api_server.standing_still(), Questions(site, [token]) as questions:
        release = threading.Timer(1, api_server.go_on)
        release.start()
        questions.wait_for_answers()
        release.join()
    check(questions, pods, in_time=True)


# Restarting.


def test_while_the_api_server_restarts_nobody_is_told_anything_wrong(site, pods, api_server):
    with Questions(site, pods) as questions:
        questions.wait_for_answers()
        api_server.kill()
        questions.wait_for(lambda it: len(it.told) > len(pods), "the outage noticed")
        api_server.start()
        questions.wait_for_answers()
    check(questions, pods, Reason.API_UNAVAILABLE)


def test_a_service_that_is_killed_again_and_again_gives_the_right_answer_or_none(site, pods, server):
    with Questions(site, pods) as questions:
        for _ in range(3):
            questions.wait_for_answers()
            before = len(questions.told)
            server.kill()
            questions.wait_for(lambda it, count=before: len(it.told) > count, "the end noticed")
            server.start()
        questions.wait_for_answers()
    check(questions, pods, Reason.SERVICE_UNREACHABLE)


def test_a_service_that_dies_with_an_answer_under_way_gives_none(site, pods, server, api_server):
    token = next(iter(pods))
    with api_server.standing_still(), Questions(site, [token]) as questions:
        until(_has_connection, seconds=10, what="the question on its way")
        server.kill()
        questions.wait_for(lambda it: it.told, "the end noticed")
    server.start()
    check(questions, pods, Reason.SERVICE_UNREACHABLE)
    assert not questions.answers
    assert found(site.answered(token)) == pods[token]


def _has_connection():
    """True if somebody is connected to the service. Source: man 5 proc, /proc/net/tcp."""
    fields = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(local.endswith(f":{PORT:04X}") and state == "01" for _, local, _, state, *_ in fields)
