"""One vGPU, one VM: who came first has the claim, and each gets its turn."""

import pytest
from support.allocations import claim, consumer, pod

from dra.errors import Failed, Refused
from dra.reasons import Reason
from webhook.allocations.reservation import Rival, has_left, held, rivals

FIRST, SECOND, THIRD = (pod(name) for name in ("a", "b", "c"))
SHARED = claim("shared", reserved=[FIRST, SECOND, THIRD])
A = Rival("a", "uid-a", is_pod=True)


def test_the_first_has_no_rival():
    assert rivals(SHARED, "uid-a") == ()


def test_those_who_came_before_are_rivals_in_their_order():
    assert rivals(SHARED, "uid-c") == (A, Rival("b", "uid-b", is_pod=True))


@pytest.mark.parametrize("reserved", [[], [FIRST, SECOND]], ids=["nobody", "others"])
def test_a_pod_that_did_not_reserve_the_claim_waits(reserved):
    with pytest.raises(Failed) as failed:
        rivals(claim("shared", reserved=reserved), "uid-c")
    assert failed.value.reason is Reason.NOT_RESERVED


def test_a_pod_of_the_same_name_that_came_later_is_another():
    with pytest.raises(Failed):
        rivals(claim("shared", reserved=[pod("a", uid="old")]), "uid-a")


LEFT = {
    "gone": (None, True),
    "made again under the name": (pod("a", uid="another"), True),
    "succeeded": (pod("a", phase="Succeeded"), True),
    "failed": (pod("a", phase="Failed"), True),
    "running": (pod("a"), False),
    "pending": (pod("a", phase="Pending"), False),
    "terminating": (pod("a", terminating=True), False),
    "unknown": (pod("a", phase="Unknown"), False),
}


@pytest.mark.parametrize(("item", "left"), LEFT.values(), ids=LEFT)
def test_a_rival_has_left_when_its_pod_is_gone_or_has_ended(item, left):
    assert has_left(A, item) is left


def test_what_is_no_pod_never_leaves():
    group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "a", "uid": "g"}
    item = claim("shared")
    item["status"]["reservedFor"] = [group, consumer(SECOND)]
    (rival,) = rivals(item, "uid-b")
    assert not has_left(rival, None)
    assert "workload 'a'" in held("shared", rival, None).message


def test_who_holds_the_claim_is_named():
    error = held("shared", A, pod("a"))
    assert isinstance(error, Refused)
    assert error.reason is Reason.CLAIM_HELD
    assert "'shared' is held by pod 'a'" in error.message


def test_while_the_holder_terminates_a_retry_may_help():
    error = held("shared", A, pod("a", terminating=True))
    assert isinstance(error, Failed)
    assert error.reason is Reason.CLAIM_HELD
