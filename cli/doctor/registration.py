"""The webhook configurations: all of dravirt's webhooks, and as they must be.

They are found by the names of their webhooks, which an installation with a name prefix does not change.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cli.doctor import remedies
from cli.doctor.codes import Code
from cli.doctor.facts import Objects, Place, RawObject
from cli.doctor.finding import Finding
from dra.contract import DEFAULT_NAMESPACE, SERVICE_NAME
from webhook.raw import mapping, mappings, name_of

MUTATING, VALIDATING = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"
WEBHOOKS = {
    MUTATING: ("vm.dravirt.io", "vmi.dravirt.io", "pod.dravirt.io"),
    VALIDATING: ("injected-pod.dravirt.io",),
}
_KUBEVIRTS = "virt-api-mutator"
"""KubeVirt's MutatingWebhookConfiguration. Those that the API server asks come in the order of their names."""
_MANIFEST = "deploy/base/webhooks.yaml"
_APPLY = "kubectl apply --server-side --force-conflicts -f"
"""What others set, such as a caBundle or an annotation of cert-manager, stays."""


_VM_RULE = {
    "apiGroups": ["kubevirt.io"],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["virtualmachines"],
    "scope": "Namespaced",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One webhook of a configuration."""

    kind: str
    configuration: str
    index: int
    name: str
    raw: RawObject

    @property
    def subject(self) -> str:
        """What it is called in a finding."""
        return f"{self.kind} {self.configuration}, webhook {self.name}"

    def patch(self, **fields: Any) -> str:
        """Return the command that sets fields of the webhook, where it still is in its place."""
        operations = [{"op": "test", "path": remedies.pointer("webhooks", self.index, "name"), "value": self.name}]
        operations += [
            {"op": "add", "path": remedies.pointer("webhooks", self.index, name), "value": value}
            for name, value in fields.items()
        ]
        return remedies.patch(self.kind.lower(), self.configuration, operations)


def is_ours(configuration: RawObject) -> bool:
    """True for a configuration that holds a webhook of dravirt."""
    names = WEBHOOKS.get(str(configuration.get("kind")), ())
    return any(name_of(each) in names for each in mappings(configuration, "webhooks"))


def entries(registrations: Objects) -> list[Entry]:
    """Return dravirt's webhooks, in order."""
    return [
        Entry(kind, name_of(mapping(item, "metadata")), index, name_of(raw), raw)
        for item in registrations
        if (kind := str(item.get("kind"))) in WEBHOOKS
        for index, raw in enumerate(mappings(item, "webhooks"))
        if name_of(raw) in WEBHOOKS[kind]
    ]


def apply_again(place: Place) -> str:
    """Return the command that registers the webhooks, to be run in a clone of dravirt."""
    if place == Place(DEFAULT_NAMESPACE, SERVICE_NAME):
        return f"{_APPLY} {_MANIFEST}"
    names = f"s/{DEFAULT_NAMESPACE}/{place.namespace}/g; s/{SERVICE_NAME}/{place.service}/g"
    return f"sed '{names}' {_MANIFEST} | {_APPLY} -"


def register_vms(registrations: Objects, place: Place) -> str:
    """Return the command after which the webhook for VMs is asked about those of every namespace but two."""
    vm = next((each for each in entries(registrations) if each.name == "vm.dravirt.io"), None)
    if vm is None:
        return apply_again(place)
    left_out = ["kube-system", place.namespace]
    selector = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": left_out}]}
    return vm.patch(rules=[_VM_RULE], objectSelector={}, namespaceSelector=selector)


def check_registered(registrations: Objects, place: Place) -> Iterator[Finding]:
    """Find webhooks that are not registered, or not as they must be."""
    found = entries(registrations)
    for kind, names in WEBHOOKS.items():
        there = [each for each in found if each.kind == kind]
        if not there:
            what = f"there is none with dravirt's webhooks ({', '.join(names)})"
            yield Finding(Code.WEBHOOKS_MISSING, kind, what, apply_again(place))
            continue
        for name in (each for each in names if each not in [entry.name for entry in there]):
            subject = f"{kind} {there[0].configuration}"
            yield Finding(Code.WEBHOOK_MISSING, subject, f"the webhook {name} is gone", apply_again(place))
    for each in found:
        if each.raw.get("failurePolicy", "Fail") != "Fail":
            yield Finding(
                Code.FAILURE_POLICY, each.subject, "failurePolicy is Ignore", each.patch(failurePolicy="Fail")
            )
    for name in {each.configuration for each in found if each.kind == MUTATING and each.configuration > _KUBEVIRTS}:
        what = f"its name comes after {_KUBEVIRTS}, which KubeVirt sets its defaults by"
        remedy = f"{apply_again(place)} && kubectl delete {MUTATING.lower()} {name}"
        yield Finding(Code.WEBHOOK_ORDER, f"{MUTATING} {name}", what, remedy)
