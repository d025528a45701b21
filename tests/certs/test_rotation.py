"""What is due when: one table for a Secret that is well, one for each way in which it is not."""

from dataclasses import replace

import pytest
from support.authorities import NAMES, NOW, client_trusts, days, material, seconds

from certs.certificates import issue, new_authority, service_names
from certs.material import Material
from certs.policy import Policy
from certs.rotation import MAX_AUTHORITIES, Change, State, Step, carry_out, forecast, is_taken, plan
from dra.errors import Refused

POLICY = Policy()
AUTHORITY, LEAF, BUNDLE = Change.AUTHORITY, Change.LEAF, Change.BUNDLE
LONG = days(1)


def due(now, state, names=NAMES):
    return [step.change for step in plan(now, state, names, POLICY)]


def after(now, state, names=NAMES):
    return carry_out(plan(now, state, names, POLICY), now, state, names, POLICY)


@pytest.fixture(scope="module")
def first():
    return material()


def other(now=NOW):
    return new_authority(now, POLICY.authority_life)


def test_an_empty_secret_is_filled_at_once():
    made = after(NOW, State(Material()))

    assert due(NOW, State(Material())) == [AUTHORITY, LEAF]
    assert client_trusts(made.leaf, made.bundle, NOW)
    assert due(NOW, State(made)) == []


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        (days(0), []),
        (days(19.9), []),
        (days(20), [LEAF]),
        (days(29), [LEAF]),
        (days(31), [LEAF]),
        (days(244), [LEAF, AUTHORITY]),
        (days(366), [AUTHORITY, LEAF]),
        (-days(1), [AUTHORITY, LEAF]),
    ],
    ids=[
        "new",
        "more than a third is left",
        "a third is left",
        "nearly expired",
        "expired",
        "the certificate has expired and the authority is old",
        "the authority has expired",
        "the clock was put back: nothing is valid yet",
    ],
)
def test_what_is_due_depends_on_the_time(first, when, expected):
    assert due(NOW + when, State(first)) == expected
    healed = after(NOW + when, State(first))
    assert client_trusts(healed.leaf, healed.bundle, NOW + when)
    assert due(NOW + when, State(healed)) == []


def test_tl07_an_authority_that_expired_under_a_valid_certificate_is_replaced_with_it():
    pair = new_authority(NOW - days(364), days(365))
    leaf = issue(new_authority(NOW, days(900)), NAMES, NOW, days(30))
    broken = Material((pair.certificate,), pair.key, (leaf.certificate,), leaf.key)

    assert due(NOW + days(2), State(broken)) == [AUTHORITY, LEAF]


def test_tl07_a_certificate_that_ends_with_its_authority_is_not_made_anew_in_vain():
    pair = new_authority(NOW, days(300))
    ending = material(NOW + days(290), authority=pair)
    state = State(replace(ending, bundle=(other(NOW + days(200)).certificate, *ending.bundle)))
    # its own authority signs, and is the one that ends
    assert LEAF not in due(NOW + days(299), replace(state, material=ending))


def test_tl10_a_new_authority_joins_and_the_certificate_waits_for_it(first):
    # the certificate is young: renewed two days ago
    now = NOW + days(250)
    young = material(now - days(2), authority=first.authority)
    state = State(young)

    assert due(now, state) == [AUTHORITY]
    joined = after(now, state)
    assert joined.bundle[1:] == young.bundle
    assert joined.chain == young.chain
    assert joined.authority.certificate not in young.bundle
    for trusted_for in (None, seconds(0), POLICY.propagation - seconds(1)):
        assert due(now + seconds(600), State(joined, trusted_for=trusted_for)) == []
    assert due(now + seconds(600), State(joined, trusted_for=POLICY.propagation)) == [LEAF]


def test_a_certificate_that_is_due_with_its_authority_is_signed_by_the_one_that_is_trusted(first):
    made = after(NOW + days(244), State(first))
    assert made.issuer == first.authority.certificate
    assert made.authority.certificate not in first.bundle
    assert len(made.bundle) == 2


def test_tl10_the_old_authority_stays_for_the_overlap_and_then_goes(first):
    now = NOW + days(250)
    joined = after(now, State(material(now - days(2), authority=first.authority)))
    switched_at = now + POLICY.propagation
    switched = after(switched_at, State(joined, trusted_for=POLICY.propagation))

    assert len(switched.bundle) == 2
    assert switched.issuer == switched.authority.certificate
    end = now + POLICY.propagation + POLICY.overlap
    renewed = after(end - days(5), State(switched, trusted_for=LONG))
    assert len(renewed.bundle) == 2
    assert due(end - seconds(1), State(renewed, trusted_for=LONG)) == []
    assert due(end, State(renewed, trusted_for=LONG)) == [BUNDLE]
    assert after(end, State(renewed, trusted_for=LONG)).bundle == (switched.authority.certificate,)


def test_the_old_authority_stays_while_the_certificate_is_its_own(first):
    now = NOW + days(250)
    joined = after(now, State(material(now - days(2), authority=first.authority)))
    assert due(now + days(15), State(joined)) == [], "the caBundles could not be set"
    expired = after(now + days(29), State(joined))
    assert expired.issuer == expired.authority.certificate, "an expired certificate helps nobody"


def test_names_that_are_new_wait_for_nothing(first):
    more = service_names("dravirt-webhook", "dravirt-system", "cluster.local")
    assert due(NOW, State(first), more) == [LEAF]
    assert due(NOW, State(material(names=more))) == [], "a name more than asked for is no fault"


def test_a_secret_of_another_service_is_made_anew(first):
    assert due(NOW, State(first), service_names("other", "gpu")) == [LEAF]


BROKEN = {
    "no authority's key": (lambda it: replace(it, authority_key=None), [AUTHORITY]),
    "another authority's key": (lambda it: replace(it, authority_key=other().key), [AUTHORITY]),
    "no authority": (lambda it: replace(it, bundle=()), [AUTHORITY, LEAF]),
    "another authority": (lambda it: replace(it, bundle=(other().certificate,)), [AUTHORITY, LEAF]),
    "no certificate": (lambda it: replace(it, chain=()), [LEAF]),
    "no key": (lambda it: replace(it, key=None), [LEAF]),
    "another key": (lambda it: replace(it, key=other().key), [LEAF]),
    "another authority's certificate": (lambda it: replace(it, chain=material().chain, key=it.key), [LEAF]),
    "the authority twice": (lambda it: replace(it, bundle=it.bundle * 2), [BUNDLE]),
    "a certificate among the authorities": (lambda it: replace(it, bundle=(*it.bundle, it.leaf)), [BUNDLE]),
    "an authority that is over": (
        lambda it: replace(it, bundle=(*it.bundle, new_authority(NOW - days(9), days(8)).certificate)),
        [BUNDLE],
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_secret_is_mended_in_one_write(first, fault):
    break_it, expected = BROKEN[fault]
    broken = State(break_it(first))

    assert due(NOW, broken) == expected
    mended = after(NOW, broken)
    assert client_trusts(mended.leaf, mended.bundle, NOW)
    assert due(NOW, State(mended)) == []


def test_a_lost_secret_keeps_trust_in_what_replicas_still_serve(first):
    lost = State(Material(), known=frozenset(first.bundle))
    made = after(NOW + days(1), lost)

    assert due(NOW + days(1), lost) == [AUTHORITY, LEAF]
    assert set(first.bundle) < set(made.bundle)
    served = State(made, known=frozenset(made.bundle))
    for trusted_for, taken in ((None, False), (seconds(1), False), (POLICY.propagation, True)):
        assert is_taken(NOW + days(1), first, replace(served, trusted_for=trusted_for), POLICY) is taken
    assert is_taken(NOW + days(1), None, served, POLICY), "who serves nothing has nothing to lose"
    assert is_taken(NOW + days(31), first, served, POLICY), "what has expired is of no use"


def test_a_renewed_certificate_of_the_same_authority_is_taken_at_once(first):
    renewed = after(NOW + days(20), State(first))
    assert is_taken(NOW + days(20), first, State(renewed), POLICY)


def test_a_leaked_key_is_trusted_no_more(first):
    fresh = carry_out([Step(Change.ANEW, "asked for")], NOW, State(first), NAMES, POLICY)
    assert len(fresh.bundle) == 1
    assert client_trusts(fresh.leaf, fresh.bundle, NOW)
    assert is_taken(NOW, first, State(fresh), POLICY), "what nobody trusts is given up"


def test_a_bundle_has_bounds_and_never_loses_the_authority_in_use(first):
    state = State(first)
    for hour in range(20):
        moment = NOW + seconds(3600 * hour)
        state = State(carry_out([Step(AUTHORITY, "asked for")], moment, state, NAMES, POLICY))
        assert len(state.material.bundle) <= MAX_AUTHORITIES
        assert state.material.issuer in first.bundle
        assert due(moment, state) == []
    assert len(state.material.bundle) == MAX_AUTHORITIES


def test_the_forecast_tells_what_comes_in_its_order(first):
    assert [what for _, what in forecast(NOW, State(first), NAMES, POLICY)] == ["new certificate", "new authority"]
    now = NOW + days(250)
    joined = State(after(now, State(material(now - days(2), authority=first.authority))))
    (when, what), *_ = forecast(now, joined, NAMES, POLICY)
    assert when == now + POLICY.propagation
    assert "signed by the new authority" in what
    switched = State(after(now + days(1), replace(joined, trusted_for=LONG)), trusted_for=LONG)
    assert "the old authority is dropped" in [what for _, what in forecast(now + days(1), switched, NAMES, POLICY)]
    assert forecast(now, State(Material()), NAMES, POLICY)[0] == (
        now,
        "new authority: there is none whose key is known",
    )


@pytest.mark.parametrize(
    "change",
    [
        {"interval": seconds(0)},
        {"interval": seconds(100)},
        {"leaf_life": seconds(100)},
        {"overlap": seconds(1)},
        {"authority_life": days(40)},
    ],
    ids=["no interval", "propagation too short", "lifetime too short", "overlap too short", "authority too short"],
)
def test_lifetimes_under_which_a_rotation_cannot_end_are_refused(change):
    with pytest.raises(Refused):
        replace(POLICY, **change)
