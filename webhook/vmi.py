"""VirtualMachineInstances: the annotation becomes placeholder GPUs, once, when the VMI is created.

Instancetypes, preferences, replica sets and bare VMIs come here without a VM that was checked, so all is checked again.
"""

from dra.errors import Refused
from dra.intent import Mode
from dra.reasons import Reason
from webhook.advice import advice
from webhook.annotation import FIELD, annotation_of, read_asked
from webhook.config import Config
from webhook.decision import AdmissionRequest, Decision
from webhook.devices import check_devices, missing_placeholders
from webhook.patch import Ground, Patch
from webhook.raw import mapping

_GPUS = ("spec", "domain", "devices", "gpus")


def decide(request: AdmissionRequest, config: Config) -> Decision:
    """Return what is to happen to a VMI that is created."""
    vmi = request.object
    text = annotation_of(vmi)
    if text is None:
        return Decision(Reason.NOT_OPTED_IN)
    if request.operation != "CREATE":
        return Decision(Reason.UNCHANGED)
    spec = mapping(vmi, "spec")
    try:
        asked = read_asked(text, FIELD)
        check_devices(asked, spec, config.mode, path="spec")
    except Refused as error:
        return Decision.deny(error.reason, error.message)
    warnings = tuple(advice(asked, vmi, config.mode))
    entries = missing_placeholders(asked, spec) if config.mode is Mode.PLACEHOLDER else []
    if not entries:
        return Decision(Reason.ACCEPTED, warnings=warnings)
    operations = Ground.of(vmi, [_GPUS]).append(entries, *_GPUS)
    return Decision(Reason.PLACEHOLDERS_ADDED, patch=Patch.of(operations), warnings=warnings)
