"""All checks: which facts each needs, and what comes of a look at a cluster.

A check is run where the facts that it needs were seen. Others may be unseen, and it is given None for them: what it
uses makes it say more, and what it mends by only makes its command better.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from cli.doctor import (
    availability,
    draining,
    drivers,
    dryrun,
    gates,
    mdevs,
    permits,
    registration,
    rights,
    settings,
    trust,
    uninstall,
    versions,
)
from cli.doctor.codes import Code, Severity
from cli.doctor.facts import SUBJECTS, Facts, Unseen
from cli.doctor.finding import Finding

_SEE_ALL = (
    "kubectl -n dravirt-doctor delete job dravirt-doctor --ignore-not-found && kubectl apply -k deploy/doctor"
    " && kubectl -n dravirt-doctor logs -f job/dravirt-doctor --pod-running-timeout=2m"
)
"""The command for those whose own rights do not do: the Job has them."""


@dataclass(frozen=True, slots=True)
class Check:
    """A question to a cluster. `run` is given the facts it needs, then those it uses, then those it mends by."""

    name: str
    run: Callable[..., Iterable[Finding]]
    needs: tuple[str, ...]
    uses: tuple[str, ...] = ()
    mends_by: tuple[str, ...] = ()


CHECKS = (
    Check("Kubernetes", versions.check_kubernetes, ("version", "served")),
    Check("DRA", dryrun.check_pod, ("tried_pod", "version")),
    Check("KubeVirt", versions.check_kubevirt, ("kubevirt",), ("settings",)),
    Check("placeholder permitted", permits.check_permit, ("kubevirt",), ("settings",), ("hyperconverged",)),
    Check("mediated devices kept", mdevs.check_mdevs, ("kubevirt",), ("slices", "settings"), ("hyperconverged",)),
    Check("webhooks registered", registration.check_registered, ("registrations", "place")),
    Check("certificate trusted", trust.check_trust, ("trust", "registrations", "place")),
    Check("webhook answers", dryrun.check_vm, ("tried_vm", "place"), (), ("registrations",)),
    Check("endpoints", availability.check_endpoints, ("endpoints", "place")),
    Check("replicas", availability.check_deployment, ("deployment", "budgets")),
    Check("versions", availability.check_images, ("deployment", "settings")),
    Check("configuration", settings.check_settings, ("settings",)),
    Check("rights", rights.check_rights, ("rights", "place")),
    Check("allocation service", rights.check_service, ("settings",)),
    Check("drivers", drivers.check_drivers, ("slices",), ("settings",)),
    Check("device classes", drivers.check_classes, ("slices", "classes")),
    Check("pools", drivers.check_pools, ("slices",)),
    Check("drains", draining.check_draining, ("machines", "instances"), ("patterns", "kubevirt")),
    Check("feature gates", gates.check_gates, ("kubevirt",)),
)
BEFORE_UNINSTALL = (Check("VMs that ask", uninstall.check_uninstall, ("machines", "instances"), ("patterns",)),)

_ORDER = list(Severity)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a look at a cluster found, the worst first, and the names of the checks that found nothing wrong."""

    findings: tuple[Finding, ...]
    well: tuple[str, ...]

    def count(self, severity: Severity) -> int:
        """Return how many findings have the severity."""
        return sum(each.severity is severity for each in self.findings)

    @property
    def is_good(self) -> bool:
        """True where no finding is an error."""
        return not self.count(Severity.ERROR)


def diagnose(facts: Facts, checks: Iterable[Check] = CHECKS) -> Diagnosis:
    """Return what the checks find."""
    findings: list[Finding] = []
    well, unseen = [], {}
    for check in checks:
        given = {name: getattr(facts, name) for name in (*check.needs, *check.uses, *check.mends_by)}
        missing = {name: value.why for name, value in given.items() if isinstance(value, Unseen)}
        unseen.update(missing)
        found: list[Finding] = []
        if missing.keys().isdisjoint(check.needs):
            found = list(check.run(*(None if name in missing else value for name, value in given.items())))
        if missing:
            # What was not seen may speak against a change.
            found = [replace(each, fix=None) for each in found]
        findings += found
        if missing.keys() <= set(check.mends_by) and all(each.severity is Severity.INFO for each in found):
            well.append(check.name)
    findings += [Finding(Code.UNSEEN, SUBJECTS[name], why, _SEE_ALL) for name, why in unseen.items()]
    return Diagnosis(tuple(sorted(findings, key=lambda each: _ORDER.index(each.severity))), tuple(well))
