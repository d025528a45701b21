"""Who asks is told by the API server alone."""

import pytest
from support.allocations import EXTRA, pod, review_status

from dra.errors import Refused
from dra.reasons import Reason
from webhook.allocations.caller import Caller, read_caller, token_review

POD = pod("vm1")


def status(**changes):
    return {"status": review_status(POD, **changes)}


def with_user(**changes):
    user = review_status(POD)["user"]
    return status(user=user | changes)


def with_extra(key, value):
    extra = dict(review_status(POD)["user"]["extra"])
    extra.pop(EXTRA + key)
    return with_user(extra=extra if value is None else {**extra, EXTRA + key: value})


def test_the_review_asks_for_our_audience():
    assert token_review("abc")["spec"] == {"token": "abc", "audiences": ["dravirt.io"]}


def test_namespace_pod_and_node_are_those_of_the_review():
    assert read_caller(status()) == Caller("team-a", "vm1", "uid-vm1", "node-7")


REFUSED = {
    "not authenticated": status(authenticated=False),
    "authenticated as text": status(authenticated="true"),
    "no status": {},
    "another audience": status(audiences=["kubernetes"]),
    "no audience: an authenticator that knows none": status(audiences=[]),
    "audiences are missing": status(audiences=None),
    "audience as text": status(audiences="dravirt.io"),
    "a person": with_user(username="alice"),
    "a node": with_user(username="system:node:node-7"),
    "no account": with_user(username="system:serviceaccount:team-a"),
    "empty namespace": with_user(username="system:serviceaccount::default"),
    "namespace with a path": with_user(username="system:serviceaccount:../x:default"),
    "a third part": with_user(username="system:serviceaccount:team-a:default:more"),
    "username is no text": with_user(username=["system:serviceaccount:team-a:default"]),
    "no pod": with_extra("pod-name", None),
    "no uid": with_extra("pod-uid", None),
    "no node": with_extra("node-name", None),
    "two pods": with_extra("pod-name", ["vm1", "vm2"]),
    "two uids": with_extra("pod-uid", ["uid-vm1", "uid-vm2"]),
    "no value": with_extra("pod-uid", []),
    "empty value": with_extra("pod-uid", [""]),
    "value as text": with_extra("pod-name", "vm1"),
    "pod with a path": with_extra("pod-name", ["../secrets/x"]),
    "node with a selector": with_extra("node-name", ["a,spec.driver=b"]),
}


@pytest.mark.parametrize("review", REFUSED.values(), ids=REFUSED)
def test_anything_else_is_refused(review):
    with pytest.raises(Refused) as refused:
        read_caller(review)
    assert refused.value.reason is Reason.INVALID_TOKEN


def test_the_servers_own_words_are_passed_on():
    with pytest.raises(Refused, match="token has expired"):
        read_caller(status(authenticated=False, error="token has expired"))
