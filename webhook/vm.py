"""VirtualMachines: the annotation is checked where its owner writes it and copied to where it takes effect.

KubeVirt hands only the template's annotations on to the VMI, so a value on the VM's own metadata is copied there. What
we copied is ours to change and to remove; what the owner wrote into the template is never touched.
"""

import hashlib
import json
from dataclasses import dataclass

from dra.contract import COPIED_ANNOTATION, DEVICES_ANNOTATION
from dra.errors import Refused
from dra.fields import kind_of
from dra.reasons import Reason
from webhook.advice import advice
from webhook.annotation import FIELD, TEMPLATE_FIELD, annotation_of, read_asked
from webhook.config import Config
from webhook.decision import AdmissionRequest, Decision, RawObject
from webhook.devices import check_devices
from webhook.patch import Ground, Operation, Patch, Path, remove
from webhook.raw import annotations, mapping

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a VM carries the annotation, and the mark of what we copied."""

    metadata: object = None
    template: object = None
    copied: object = None

    @classmethod
    def of(cls, vm: RawObject) -> "Placement":
        """Return the placement in `vm`."""
        template = mapping(vm, "spec", "template")
        return cls(annotation_of(vm), annotation_of(template), annotations(vm).get(COPIED_ANNOTATION))

    def holds(self, value: object) -> bool:
        """True if `value` stands in one of the two places, or is none."""
        return value is None or value in (self.metadata, self.template)

    def same_values(self, other: "Placement") -> bool:
        """True if the owner's two values are the same."""
        return (self.metadata, self.template) == (other.metadata, other.template)


def decide(request: AdmissionRequest, config: Config) -> Decision:
    """Return what is to happen to a VM that is created or updated."""
    vm = request.object
    now = Placement.of(vm)
    before = Placement.of(request.old_object) if request.old_object else Placement()
    if mapping(vm, "metadata").get("deletionTimestamp"):
        return Decision(Reason.BEING_DELETED)
    if now.same_values(before):
        return Decision(Reason.NOT_OPTED_IN if now.same_values(Placement()) else Reason.UNCHANGED)
    settled = settle(now, before, _written_by_owner(vm))
    try:
        _check_new_values(now, before)
        warnings = _check_effect(vm, settled, before, config)
    except Refused as error:
        return Decision.deny(error.reason, error.message)
    if now.metadata is not None and settled.template != now.metadata:
        warnings.insert(0, _both_set(now))
    return Decision(_reason(now, settled), patch=Patch.of(_operations(vm, now, settled)), warnings=tuple(warnings))


def settle(now: Placement, before: Placement, written_by_owner: object) -> Placement:
    """Return the placement as it shall be.

    A value on metadata goes to a template that has none or still holds our copy, and leaves with it. Our copy is what
    the mark says, unless the owner now writes the same value into the template himself (`written_by_owner`). A marked
    template without a value on metadata before either was not copied here: it comes from a manifest that was exported.
    """
    is_copy = now.template is not None and now.copied == _mark(now.template) and now.template != written_by_owner
    if now.metadata is not None and (now.template is None or is_copy):
        mark = None if now.metadata == written_by_owner else _mark(now.metadata)
        return Placement(now.metadata, now.metadata, mark)
    if now.metadata is None and before.metadata is not None and is_copy:
        return Placement()
    return Placement(now.metadata, now.template, None)


def _mark(value: object) -> str:
    return hashlib.sha256(value.encode()).hexdigest() if isinstance(value, str) else ""


def _written_by_owner(vm: RawObject) -> object:
    """Return the template's value in the manifest that was last applied, None where nothing shows it."""
    try:
        applied = json.loads(annotations(vm).get(_LAST_APPLIED) or "{}")
    except (TypeError, ValueError, RecursionError):
        return None  # not kubectl's: the owner's own text under that key
    return annotation_of(mapping(applied, "spec", "template")) if isinstance(applied, dict) else None


def _check_new_values(now: Placement, before: Placement) -> None:
    """Refuse a value that is new and wrong. A stored value is never refused, nor is our copy of it."""
    if not before.holds(now.metadata):
        read_asked(now.metadata, FIELD)
    if not before.holds(now.template):
        read_asked(now.template, TEMPLATE_FIELD)


def _check_effect(vm: RawObject, settled: Placement, before: Placement, config: Config) -> list[str]:
    """Return the warnings about the value that takes effect. Raises Refused if it is new and does not fit the VM."""
    warnings = []
    if settled.template != before.template and mapping(vm, "status").get("created") is True:
        warnings.append(f"{DEVICES_ANNOTATION}: the VM is running, the change takes effect at its next restart")
    if settled.template is None:
        return warnings
    try:
        asked = read_asked(settled.template, TEMPLATE_FIELD)
        template = mapping(vm, "spec", "template")
        check_devices(asked, mapping(template, "spec"), config.mode, path="spec.template.spec")
    except Refused as error:
        if not before.holds(settled.template):
            raise
        return [*warnings, f"the VM will not start: {error.message}"]
    return [*warnings, *advice(asked, template, config.mode)]


def _both_set(now: Placement) -> str:
    both = f"metadata says {_quoted(now.metadata)}, the template {_quoted(now.template)}"
    return f"{DEVICES_ANNOTATION}: {both}: the template wins"


def _quoted(value: object) -> str:
    return ascii(value[:60]) if isinstance(value, str) else kind_of(value)


def _reason(now: Placement, settled: Placement) -> Reason:
    if settled.template != now.template:
        return Reason.WITHDRAWN if settled.template is None else Reason.COPIED
    return Reason.NOT_OPTED_IN if settled.template is None else Reason.ACCEPTED


def _operations(vm: RawObject, now: Placement, settled: Placement) -> list[Operation]:
    return [
        *_set(vm, DEVICES_ANNOTATION, now.template, settled.template, ("spec", "template", "metadata", "annotations")),
        *_set(vm, COPIED_ANNOTATION, now.copied, settled.copied, ("metadata", "annotations")),
    ]


def _set(vm: RawObject, key: str, now: object, settled: object, annotations_at: Path) -> list[Operation]:
    if settled == now:
        return []
    if settled is None:
        return [remove(*annotations_at, key)]
    return Ground.of(vm, [annotations_at]).put({key: settled}, *annotations_at)
