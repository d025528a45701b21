"""How device requests become claims of the launcher pod."""

from dataclasses import replace
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.dra_inputs import ANNOTATION, bounded

from dra.claims import PodClaim, pod_claims
from dra.contract import MAX_DEVICE_NAME
from dra.errors import Refused
from dra.names import is_dns_label
from dra.reasons import Reason
from dra.request import DeviceRequest


def claims_of(*requests):
    return pod_claims(requests, path=ANNOTATION)


SOURCES = [{"template": "t"}, {"template": "u"}, {"claim": "t"}, {"claim": "u"}]
REQUESTS = [None, "r", "r/x", "r/y", "s"]
KINDS = [DeviceRequest("", **source, request=request) for source, request in product(SOURCES, REQUESTS)]


def expected(first, second):
    """Say what must become of two requests: `apart`, `shared`, or the path below the annotation that is refused."""
    if (first.template, first.claim) != (second.template, second.claim):
        return "apart"
    if first.template and None in (first.request, second.request):
        return "apart"  # a template entry without a request makes a claim of its own
    if None in (first.request, second.request):
        return "[1]"
    same = first.request.split("/")[0] == second.request.split("/")[0]
    return "[1].request" if same else "shared"


@pytest.mark.parametrize("first", KINDS, ids=lambda kind: f"{kind.template or kind.claim}-{kind.request}")
def test_two_requests_share_a_pod_claim_only_where_they_share_a_claim(first):
    first = replace(first, name="a")
    for second in (replace(kind, name="b") for kind in KINDS):
        match expected(first, second):
            case "apart":
                one, two = claims_of(first, second)
                assert (one.name, one.requests) == ("dravirt-a", (first,))
                assert (two.name, two.requests) == ("dravirt-b", (second,))
            case "shared":
                (shared,) = claims_of(first, second)
                assert (shared.name, shared.requests) == ("dravirt-a", (first, second))
            case path:
                with pytest.raises(Refused, match="'a'") as refused:
                    claims_of(first, second)
                assert refused.value.reason is Reason.INVALID_ANNOTATION
                assert refused.value.path == ANNOTATION + path


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        (None, None, "takes all devices of claim 'c', as 'a' does: use one entry with a count"),
        (None, "r", "one of 'b' and 'a' takes all devices of claim 'c': name a request in both"),
        ("r", None, "one of 'b' and 'a' takes all devices of claim 'c': name a request in both"),
        ("r", "r", "takes request 'r' of claim 'c', as 'a' does: use one entry with a count"),
        ("r", "r/x", "takes request 'r' of claim 'c', as 'a' does: use one entry with a count"),
    ],
)
def test_two_entries_for_the_same_devices_are_told_what_to_do(first, second, says):
    with pytest.raises(Refused, match=says):
        claims_of(DeviceRequest("a", claim="c", request=first), DeviceRequest("b", claim="c", request=second))


def test_refusal_names_the_template_where_there_is_one():
    with pytest.raises(Refused, match="takes request 'r' of template 't', as 'a' does"):
        claims_of(DeviceRequest("a", template="t", request="r"), DeviceRequest("b", template="t", request="r/x"))


def test_a_conflict_is_found_with_any_earlier_entry_and_named_by_index():
    requests = [DeviceRequest(name, claim="c", request=name) for name in "abc"]
    other = DeviceRequest("other", template="t")
    with pytest.raises(Refused, match="as 'b' does") as refused:
        claims_of(*requests, other, DeviceRequest("d", claim="c", request="b/x"))
    assert refused.value.path == f"{ANNOTATION}[4].request"


def test_dr03_a_pod_claim_names_exactly_one_source_in_the_flat_form():
    template, claim = claims_of(DeviceRequest("a", template="t"), DeviceRequest("b", claim="c"))
    assert template.as_pod_claim() == {"name": "dravirt-a", "resourceClaimTemplateName": "t"}
    assert claim.as_pod_claim() == {"name": "dravirt-b", "resourceClaimName": "c"}


@pytest.mark.parametrize("source", [{"template": "t"}, {"claim": "c"}])
def test_containers_refer_to_the_whole_claim_or_once_per_request(source):
    (whole,) = claims_of(DeviceRequest("a", **source, count=3))
    assert whole.name == "dravirt-a-0"
    assert whole.as_container_claims() == [{"name": "dravirt-a-0"}]
    (shared,) = claims_of(DeviceRequest("a", **source, request="r/x"), DeviceRequest("b", **source, request="s"))
    assert shared.as_container_claims() == [
        {"name": "dravirt-a", "request": "r"},
        {"name": "dravirt-a", "request": "s"},
    ]


def test_pod_claims_stand_in_the_order_of_their_first_devices():
    requests = [
        DeviceRequest("z", claim="c", request="r"),
        DeviceRequest("y", template="t"),
        DeviceRequest("x", claim="c", request="s"),
        DeviceRequest("w", template="t"),
    ]
    assert [claim.name for claim in claims_of(*requests)] == ["dravirt-z", "dravirt-y", "dravirt-w"]


def test_longest_device_name_makes_a_pod_claim_name():
    (claim,) = claims_of(DeviceRequest("a" * (MAX_DEVICE_NAME - 2), template="t", count=2))
    assert is_dns_label(claim.name)


kinds = st.lists(st.sampled_from(KINDS), min_size=1, max_size=8)


@bounded
@given(kinds, st.lists(st.integers(1, 3), min_size=8, max_size=8))
def test_pod_claims_partition_the_requests(drawn, counts):
    requests = [
        replace(kind, name=f"gpu{index}", count=count)
        for index, (kind, count) in enumerate(zip(drawn, counts, strict=False))
    ]
    conflict = any(expected(*pair).startswith("[") for pair in combinations(requests, 2))
    if conflict:
        with pytest.raises(Refused):
            claims_of(*requests)
        return
    assert_right(requests, claims_of(*requests))


def assert_right(requests: list[DeviceRequest], claims: tuple[PodClaim, ...]):
    served = [device for claim in claims for device in claim.requests]
    assert sorted(served, key=lambda device: device.name) == sorted(requests, key=lambda device: device.name)

    names = [claim.name for claim in claims]
    assert len(names) == len(set(names))
    assert all(map(is_dns_label, names))

    references = [tuple(reference.items()) for claim in claims for reference in claim.as_container_claims()]
    assert len(references) == len(set(references))
    for claim in claims:
        whole = [reference for reference in claim.as_container_claims() if "request" not in reference]
        assert not whole or len(claim.requests) == 1  # Kubernetes refuses {name} beside {name, request}

    direct = [claim.claim for claim in claims if claim.claim]
    assert len(direct) == len(set(direct))  # two pod claims on one ResourceClaim are never scheduled
    for claim in claims:
        assert {(device.template, device.claim) for device in claim.requests} == {(claim.template, claim.claim)}
