"""What a person wants to know of an installation's certificates: what is there, who trusts it, and what comes next."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from certs.certificates import Certificate, fingerprint, names_of
from certs.policy import Policy
from certs.rotation import forecast
from certs.selfmanaged import View
from dra.reasons import Reason


@dataclass(frozen=True, slots=True)
class Dates:
    """A certificate by its fingerprint, and when it is valid."""

    fingerprint: str
    begins: dt.datetime
    ends: dt.datetime
    names: tuple[str, ...] = ()
    issuer: str = ""
    """The fingerprint of the authority that signed it, "" where it is not in the bundle."""
    signs: bool = False
    """True for the authority that signs the next certificate."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that keeps API servers from calling the webhook, or will."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """The state of an installation's certificates at `now`."""

    now: dt.datetime
    self_managed: bool
    authorities: tuple[Dates, ...]
    certificate: Dates | None
    webhooks: dict[str, bool]
    """Whether the caBundle of each webhook leads to the certificate."""
    coming: tuple[tuple[dt.datetime, str], ...]
    problems: tuple[Problem, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON, with times as RFC 3339."""
        return {
            "now": self.now.isoformat(),
            "selfManaged": self.self_managed,
            "authorities": [_json(each) for each in self.authorities],
            "certificate": _json(self.certificate) if self.certificate else None,
            "webhooks": [{"name": name, "trusts": trusts} for name, trusts in self.webhooks.items()],
            "next": [{"time": when.isoformat(), "what": what} for when, what in self.coming],
            "problems": [{"reason": str(each.reason), "message": each.message} for each in self.problems],
        }


def survey(view: View, names: Sequence[str], policy: Policy) -> Report:
    """Return what a look at the cluster says."""
    material, now = view.state.material, view.now
    own = material.authority is not None
    signing = material.authority.certificate if material.authority else None
    untrusting = view.untrusting(material)
    if own or material.leaf is None:
        coming = forecast(now, view.state, names, policy)
    else:
        coming = [(material.leaf.not_valid_after_utc, "the certificate ends: whoever issues it renews it before")]
    leaf = None
    if material.leaf:
        issuer = fingerprint(material.issuer) if material.issuer else ""
        leaf = replace(_dates(material.leaf), names=names_of(material.leaf), issuer=issuer)
    return Report(
        now,
        own,
        tuple(replace(_dates(each), signs=each == signing) for each in material.bundle),
        leaf,
        {name: name not in untrusting for name in view.trust},
        tuple(coming),
        _problems(view, names[0], untrusting),
    )


def _problems(view: View, name: str, untrusting: Sequence[str]) -> tuple[Problem, ...]:
    material = view.state.material
    problems = []
    # Without an authority in the Secret (OpenShift's service CA), what the webhooks trust is what counts.
    judged = material if material.bundle else replace(material, bundle=tuple(view.state.known))
    if fault := judged.fault(name, view.now):
        problems.append(Problem(Reason.INVALID_CERTIFICATE, f"the certificate: {fault}"))
    if not view.trust:
        problems.append(Problem(Reason.UNTRUSTED_CERTIFICATE, "no webhook is registered"))
    if untrusting and material.leaf:
        message = f"the caBundle of {', '.join(untrusting)} does not lead to the certificate"
        problems.append(Problem(Reason.UNTRUSTED_CERTIFICATE, message))
    return tuple(problems)


def _dates(certificate: Certificate) -> Dates:
    return Dates(fingerprint(certificate), certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def _json(dates: Dates) -> dict[str, Any]:
    return asdict(dates) | {"begins": dates.begins.isoformat(), "ends": dates.ends.isoformat()}
