"""What becomes of VMs when dravirt is removed: see `docs/pod-changes.md`, When dravirt is away."""

from collections.abc import Iterator

from cli.doctor import remedies
from cli.doctor.asking import Asker, asking
from cli.doctor.codes import Code
from cli.doctor.facts import Objects
from cli.doctor.finding import Finding


def check_uninstall(machines: Objects, instances: Objects, patterns: Objects | None) -> Iterator[Finding]:
    """Find the VMs that would then start without their devices, or not at all."""
    for each in asking(machines, instances, patterns or ()):
        if each.placeholders and each.kind == "VirtualMachine":
            what = "it would never start again: its owner wrote a placeholder"
            yield Finding(Code.NEVER_STARTS, each.subject, what, _remedy(each))
        else:
            what = "it would start without its devices"
            yield Finding(Code.STARTS_WITHOUT_DEVICE, each.subject, what, _remedy(each))


def _remedy(asker: Asker) -> str:
    """Return how it stops to ask; where the annotation comes from a pattern, how it is kept from starting."""
    if asker.kind != "VirtualMachine":
        return remedies.kubectl("delete", asker.resource, asker.name, namespace=asker.namespace)
    if operations := asker.withdrawal():
        return remedies.patch(asker.resource, asker.name, operations, asker.namespace)
    halted = {"spec": {"runStrategy": "Halted", "running": None}}
    return remedies.merge(asker.resource, asker.name, halted, asker.namespace)
