"""Which claims are a pod's own."""

import pytest
from support.allocations import claim, pod

from dra.errors import Failed, Refused
from dra.reasons import Reason
from webhook.allocations.caller import Caller
from webhook.allocations.podclaims import OwnClaim, check_owner, check_pod, own_claims

CALLER = Caller("team-a", "vm1", "uid-vm1", "node-7")


def without(item, *path):
    *parents, last = path
    for key in parents:
        item = item[key]
    del item[last]


def changed(change):
    item = pod("vm1")
    change(item)
    return item


NOT_THE_POD = {
    "deleted": (None, Reason.POD_MISMATCH),
    "made again under the name": (pod("vm1", uid="another"), Reason.POD_MISMATCH),
    "on another node": (pod("vm1", node="node-8"), Reason.POD_MISMATCH),
    "ended": (pod("vm1", phase="Succeeded"), Reason.POD_MISMATCH),
    "failed": (pod("vm1", phase="Failed"), Reason.POD_MISMATCH),
    "not opted in": (changed(lambda item: without(item, "metadata", "annotations")), Reason.NOT_OPTED_IN),
    "no launcher's label": (changed(lambda item: item["metadata"]["labels"].pop("kubevirt.io")), Reason.NOT_A_LAUNCHER),
    "no VMI's": (changed(lambda item: without(item, "metadata", "ownerReferences")), Reason.NOT_A_LAUNCHER),
    "not injected": (
        changed(lambda item: item["metadata"]["labels"].pop("dravirt.io/injected")),
        Reason.SIDECAR_MISSING,
    ),
    "no sidecar": (changed(lambda item: without(item, "spec", "initContainers")), Reason.SIDECAR_MISSING),
}


@pytest.mark.parametrize(("item", "reason"), NOT_THE_POD.values(), ids=NOT_THE_POD)
def test_only_the_tokens_own_injected_launcher_pod_is_answered(item, reason):
    with pytest.raises(Refused) as refused:
        check_pod(item, CALLER)
    assert refused.value.reason is reason


def test_the_pod_of_the_token_is_taken():
    assert check_pod(pod("vm1"), CALLER) == pod("vm1")


def test_generated_and_direct_claims_are_found_by_pod_claim():
    item = pod(templates={"dravirt-a": "vm1-a-x7k2p"}, claims={"dravirt-b": "mine"})
    assert own_claims(item) == (
        OwnClaim("dravirt-b", "mine", is_generated=False),
        OwnClaim("dravirt-a", "vm1-a-x7k2p", is_generated=True),
    )


def test_claims_that_the_sidecar_does_not_refer_to_are_left_out():
    item = pod(templates={"dravirt-a": "vm1-a", "other": "vm1-other"})
    item["spec"]["initContainers"][0]["resources"]["claims"] = [{"name": "dravirt-a", "request": "gpu"}]
    assert [own.pod_claim for own in own_claims(item)] == ["dravirt-a"]


def test_a_claim_that_was_not_made_yet_may_come():
    with pytest.raises(Failed) as failed:
        own_claims(pod(templates={"dravirt-gpu0": None}))
    assert failed.value.reason is Reason.NOT_ALLOCATED


def test_a_sidecar_without_claims_is_refused():
    with pytest.raises(Refused) as refused:
        own_claims(pod(templates={}))
    assert refused.value.reason is Reason.CLAIM_MISSING


@pytest.mark.parametrize("name", ["../pods/x", "a/b", "", "A"])
def test_names_that_are_no_names_never_reach_a_path(name):
    with pytest.raises(Refused) as refused:
        own_claims(pod(claims={"dravirt-gpu0": name}))
    assert refused.value.reason is Reason.CLAIM_MISSING


GENERATED, DIRECT = (OwnClaim("dravirt-gpu0", "c", is_generated=each) for each in (True, False))


def test_a_generated_claim_is_taken_from_its_pod_only():
    made = claim("c", owner=pod("vm1"))
    assert check_owner(made, GENERATED, CALLER) == made
    # One of its name that was made for another pod, by hand, or not controlled by the pod.
    other = claim("c", owner=pod("vm2"))
    by_hand = claim("c")
    loose = claim("c", owner=pod("vm1"))
    loose["metadata"]["ownerReferences"][0]["controller"] = False
    for found in (other, by_hand, loose, None):
        with pytest.raises(Refused) as refused:
            check_owner(found, GENERATED, CALLER)
        assert refused.value.reason is Reason.CLAIM_MISSING


def test_a_direct_claim_needs_no_owner_but_must_be_there():
    assert check_owner(claim("c"), DIRECT, CALLER) == claim("c")
    with pytest.raises(Refused, match="'c' in namespace 'team-a'"):
        check_owner(None, DIRECT, CALLER)
