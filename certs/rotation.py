"""The rotation: what to change in the Secret, as a function of the time, what is there and what the cluster trusts.

The order is what keeps every call working, and each step is safe by itself, so that any replica may take the next one:

1. a new authority joins the bundle, long before the old one ends; the caBundles follow the bundle;
2. when they have held it for the propagation time, a new certificate is signed by the new authority;
3. when the overlap is over, the old authority leaves the bundle.

The old authority's key is gone from step 1 on, so what it signed ends within a certificate's lifetime.
"""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from certs.certificates import (
    Certificate,
    Pair,
    is_authority,
    is_valid,
    issue,
    issued_at,
    leads_to,
    names_of,
    new_authority,
    renewal_at,
    signed_by,
)
from certs.material import Material, without_doubles
from certs.policy import FOLLOW, Policy

MAX_AUTHORITIES = 8
"""In a bundle: a rotation needs two."""


class Change(StrEnum):
    """A change of the Secret."""

    AUTHORITY = "new authority"
    LEAF = "new certificate"
    BUNDLE = "authorities dropped"
    ANEW = "all made anew"
    """Only on demand, for a key that others have seen: nothing of before is trusted from then on."""


@dataclass(frozen=True, slots=True)
class Step:
    """A change that is due, and why."""

    change: Change
    why: str


@dataclass(frozen=True, slots=True)
class State:
    """What one replica knows."""

    material: Material
    known: frozenset[Certificate] = frozenset()
    """The authorities in the caBundles: the Secret may have lost them."""
    trusted_for: dt.timedelta | None = None
    """How long this replica has seen the authority that signs in every caBundle; None where it is not."""

    def is_settled(self, policy: Policy) -> bool:
        """True where every API server trusts the authority that signs."""
        return self.trusted_for is not None and self.trusted_for >= policy.propagation


def plan(now: dt.datetime, state: State, names: Sequence[str], policy: Policy) -> tuple[Step, ...]:
    """Return the changes that are due, in their order; none where all is as it should be."""
    material = state.material
    if fault := _authority_fault(now, material.authority):
        # What was there is judged without the key of an authority that is of no use.
        rest = replace(material, bundle=_remaining(now, state, policy), authority_key=None)
        unserved = _leaf_is_due(now, replace(state, material=rest), names, policy)
        return (Step(Change.AUTHORITY, fault), *_steps(Change.LEAF, unserved))
    bundle = _kept(now, material, policy)
    after = replace(state, material=replace(material, bundle=bundle))
    steps = _steps(Change.BUNDLE, "" if bundle == material.bundle else "expired, a double, or its overlap is over")
    # (a certificate that is due as well is still signed by the authority that is trusted)
    steps += _steps(Change.LEAF, _leaf_is_due(now, after, names, policy))
    return steps + _steps(Change.AUTHORITY, _authority_age(now, material.authority))


def carry_out(steps: Iterable[Step], now: dt.datetime, state: State, names: Sequence[str], policy: Policy) -> Material:
    """Return what the Secret must hold after the steps."""
    material = state.material
    for step in steps:
        match step.change:
            case Change.AUTHORITY:
                pair = new_authority(now, policy.authority_life)
                bundle = (pair.certificate, *_remaining(now, replace(state, material=material), policy))
                material = replace(material, bundle=bundle, authority_key=pair.key)
            case Change.BUNDLE:
                material = replace(material, bundle=_kept(now, material, policy))
            case Change.LEAF:
                material = _with_leaf(material, now, names, policy)
            case Change.ANEW:
                pair = new_authority(now, policy.authority_life)
                material = _with_leaf(Material((pair.certificate,), pair.key), now, names, policy)
    return material


def is_taken(now: dt.datetime, served: Material | None, state: State, policy: Policy) -> bool:
    """True where a replica that serves `served` should serve the certificate of `state` from now on.

    What works is kept until its successor is trusted everywhere: a Secret that was deleted comes back with an authority
    that no API server knows yet.
    """
    candidate = state.material
    if served is None or served.leaf is None or served.leaf == candidate.leaf:
        return True
    if not leads_to(served.chain, candidate.bundle, now):
        return True
    return state.is_settled(policy) or candidate.issuer == served.issuer


def forecast(now: dt.datetime, state: State, names: Sequence[str], policy: Policy) -> list[tuple[dt.datetime, str]]:
    """Return what comes next and when, the soonest first."""
    coming = [(now, f"{step.change}: {step.why}") for step in plan(now, state, names, policy)]
    material = state.material
    if material.authority and material.leaf and not coming:
        authority = material.authority.certificate
        if not signed_by(material.leaf, authority):
            when = max(now, issued_at(authority) + policy.propagation)
            coming.append((when, "new certificate, signed by the new authority, if every caBundle holds it by then"))
        elif len(material.bundle) > 1:
            coming.append((_overlap_end(authority, material.leaf, policy), "the old authority is dropped"))
        coming.append((renewal_at(material.leaf), "new certificate"))
        coming.append((renewal_at(authority), "new authority"))
    return sorted(coming)


def _steps(change: Change, why: str) -> tuple[Step, ...]:
    return (Step(change, why),) if why else ()


def _authority_fault(now: dt.datetime, authority: Pair | None) -> str:
    """Return why the authority that signs is of no use, "" where it is."""
    if authority is None:
        return "there is none whose key is known"
    certificate = authority.certificate
    if is_valid(certificate, now):
        return ""
    return "it has expired" if certificate.not_valid_after_utc < now else "it is not valid yet"


def _authority_age(now: dt.datetime, authority: Pair | None) -> str:
    return "a third of its life is left" if authority and now >= renewal_at(authority.certificate) else ""


def _leaf_is_due(now: dt.datetime, state: State, names: Sequence[str], policy: Policy) -> str:
    """Return why a new certificate is due, "" where none is or where it must wait for its authority to be trusted."""
    material = state.material
    if fault := material.fault(names[0], now):
        return fault
    leaf, authority = material.leaf, material.authority
    if leaf is None or authority is None:
        return ""  # its authority comes with this change: what was there works until that is trusted
    if not signed_by(leaf, authority.certificate):
        return "every API server trusts the new authority" if state.is_settled(policy) else ""
    if missing := [name for name in names if name not in names_of(leaf)]:
        return f"it is not for {missing[0]}"
    # (one that ends with its authority would not live longer for being made anew)
    extends = leaf.not_valid_after_utc < authority.certificate.not_valid_after_utc
    return "a third of its life is left" if extends and now >= renewal_at(leaf) else ""


def _kept(now: dt.datetime, material: Material, policy: Policy) -> tuple[Certificate, ...]:
    """Return the bundle as it should be while the authority stays."""
    if material.authority is None:
        return material.bundle
    authority, leaf = material.authority.certificate, material.leaf
    if leaf and signed_by(leaf, authority) and now >= _overlap_end(authority, leaf, policy):
        return (authority,)
    return (authority, *_bounded((each for each in material.bundle if each != authority), now, material))


def _remaining(now: dt.datetime, state: State, policy: Policy) -> tuple[Certificate, ...]:
    """Return the authorities that stay trusted beside a new one: replicas may serve what any of them signed."""
    bundle = state.material.bundle if state.material.authority is None else _kept(now, state.material, policy)
    others = sorted(state.known, key=lambda each: each.not_valid_before_utc, reverse=True)
    return _bounded((*bundle, *others), now, state.material)


def _bounded(authorities: Iterable[Certificate], now: dt.datetime, material: Material) -> tuple[Certificate, ...]:
    """Return those that have not expired, as many as there is room for beside the one that signs."""
    alive = [each for each in without_doubles(authorities) if is_authority(each) and now <= each.not_valid_after_utc]
    room = MAX_AUTHORITIES - 1
    if len(alive) > room and material.leaf:
        leaf = material.leaf
        alive.sort(key=lambda each: not signed_by(leaf, each))  # what is in use must not be the one to go
    return tuple(alive[:room])


def _overlap_end(authority: Certificate, leaf: Certificate, policy: Policy) -> dt.datetime:
    overlap = issued_at(authority) + policy.propagation + policy.overlap
    return max(overlap, issued_at(leaf) + FOLLOW * policy.propagation)


def _with_leaf(material: Material, now: dt.datetime, names: Sequence[str], policy: Policy) -> Material:
    if material.authority is None:
        raise ValueError("no authority can sign")
    pair = issue(material.authority, names, now, policy.leaf_life)
    return replace(material, chain=(pair.certificate,), key=pair.key)
