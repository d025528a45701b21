"""The last look at a launcher pod, after all mutation and after the API server dropped what it does not support.

An API server with DRA switched off removes `spec.resourceClaims` without a word, after mutating and before validating
admission, and the VM would start without its devices. Source: k8s.io/kubernetes/pkg/api/pod/util.go.
"""

from dra.contract import COMPUTE_CONTAINER, DEVICES_ANNOTATION, INJECTED_ANNOTATION, SIDECAR_CONTAINER
from dra.errors import Refused
from dra.reasons import Reason
from webhook.annotation import FIELD, Asked, annotation_of, read_asked
from webhook.config import Config
from webhook.decision import AdmissionRequest, Decision, RawObject
from webhook.launcher import SKIPPED, Launcher, is_launcher
from webhook.raw import mappings, named

_DROPPED = (
    "the pod's resource claims are gone: the API server dropped them (feature gate DynamicResourceAllocation is off;"
    " it is on by default from Kubernetes 1.34) or another webhook removed them"
)
_NOT_INJECTED = (
    f"the pod asks for devices by {DEVICES_ANNOTATION} but was not injected: is the mutating webhook of dravirt"
    " registered, and does it run before this one?"
)
_NO_SIDECAR = (
    f"the pod carries {INJECTED_ANNOTATION} without {DEVICES_ANNOTATION} or the init container {SIDECAR_CONTAINER}:"
    " another webhook removed them, or the annotation was written on the VM by hand; remove it there"
)


def decide(request: AdmissionRequest, config: Config) -> Decision:  # noqa: ARG001 (one signature for all handlers)
    """Return whether a pod may be created as it has become.

    What is marked as injected is looked at whoever owns it, so that no pod runs without the claims it once had.
    """
    text, launcher = annotation_of(request.object), Launcher.of(request.object)
    if text is None and launcher.marker is None:
        return Decision(Reason.NOT_OPTED_IN)
    if request.operation != "CREATE":
        return Decision(Reason.UNCHANGED)
    if launcher.marker is None:
        return _unmarked(request.object)
    if text is None:
        return Decision.deny(Reason.SIDECAR_MISSING, _NO_SIDECAR)
    try:
        return _marked(request.object, launcher, read_asked(text, FIELD))
    except Refused as error:
        return Decision.deny(error.reason, error.message)


def _unmarked(pod: RawObject) -> Decision:
    if is_launcher(pod):
        return Decision.deny(Reason.NOT_INJECTED, _NOT_INJECTED)
    return Decision(Reason.NOT_A_LAUNCHER)


def _marked(pod: RawObject, launcher: Launcher, asked: Asked) -> Decision:
    if launcher.is_migration_target and launcher.marker == SKIPPED:
        return Decision(Reason.SKIPPED)
    if fault := _fault(pod, launcher, asked):
        return Decision.deny(*fault)
    return Decision(Reason.PROVISIONING if launcher.is_provisioning else Reason.ACCEPTED)


def _fault(pod: RawObject, launcher: Launcher, asked: Asked) -> tuple[Reason, str] | None:
    """Return what a pod that is marked as injected lacks. The marker's own words are not trusted, only the pod is."""
    if not launcher.is_provisioning and not launcher.has_sidecar:
        return Reason.SIDECAR_MISSING, _NO_SIDECAR
    if not launcher.holds(asked.claims):
        return Reason.CLAIMS_DROPPED, _DROPPED
    if not launcher.is_provisioning and not _are_referenced(pod, asked):
        return Reason.CLAIMS_DROPPED, _DROPPED
    if launcher.placeholders != 0:
        return Reason.NOT_INJECTED, _NOT_INJECTED
    return None


def _are_referenced(pod: RawObject, asked: Asked) -> bool:
    """True if compute and the sidecar both refer to all claims: only such containers get devices and metadata."""
    containers = (
        (mappings(pod, "spec", "containers"), COMPUTE_CONTAINER),
        (mappings(pod, "spec", "initContainers"), SIDECAR_CONTAINER),
    )
    references = [
        [] if (index := named(items, name)) is None else mappings(items[index], "resources", "claims")
        for items, name in containers
    ]
    wanted = [reference for claim in asked.claims for reference in claim.as_container_claims()]
    return all(reference in present for present in references for reference in wanted)
