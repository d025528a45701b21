"""Launcher pods: the claims and the sidecar go in, once, when KubeVirt's controller creates the pod."""

from functools import lru_cache

from dra.errors import Refused
from dra.intent import Mode
from dra.reasons import Reason
from webhook.advice import NEEDS_MEMLOCK
from webhook.annotation import FIELD, Asked, annotation_of, read_asked
from webhook.config import Config
from webhook.decision import AdmissionRequest, Decision
from webhook.injection import inject, mark, no_compute, steer
from webhook.launcher import PROVISIONING, SKIPPED, Launcher, is_launcher
from webhook.patch import Patch


def decide(request: AdmissionRequest, config: Config) -> Decision:
    """Return what is to happen to a pod that is created."""
    pod = request.object
    text = annotation_of(pod)
    if text is None:
        return Decision(Reason.NOT_OPTED_IN)
    if not is_launcher(pod):
        return Decision(Reason.NOT_A_LAUNCHER)
    if request.operation != "CREATE":
        return Decision(Reason.UNCHANGED)
    if request.username != config.kubevirt_controller:
        return _untrusted(request, config)
    try:
        return _decide_launcher(Launcher.of(pod), read_asked(text, FIELD), config)
    except Refused as error:
        return Decision.deny(error.reason, error.message)


@lru_cache(maxsize=64)  # pods that differ in names alone are one to decide about: those of a pool, or of a restart
def _decide_launcher(launcher: Launcher, asked: Asked, config: Config) -> Decision:
    if _is_done(launcher, asked):
        return Decision(Reason.ALREADY_INJECTED)
    if launcher.is_provisioning:
        return Decision(Reason.PROVISIONING, patch=Patch.of(steer(launcher, asked)))
    if launcher.compute is None:
        raise no_compute()
    expected = len(asked.device_names) if config.mode is Mode.PLACEHOLDER else 0
    if launcher.placeholders != expected:
        return _mismatch(launcher, asked, expected)
    warnings = (NEEDS_MEMLOCK,) if config.mode is Mode.APPEND else ()
    return Decision(Reason.INJECTED, patch=Patch.of(inject(launcher, asked, config)), warnings=warnings)


def _is_done(launcher: Launcher, asked: Asked) -> bool:
    """True if a pass before this one did its work. The marker alone proves nothing: a tenant can write it on a VM."""
    if launcher.marker is None or launcher.placeholders != 0:
        return False
    if launcher.is_provisioning:
        return launcher.marker == PROVISIONING and launcher.holds(asked.claims)
    return launcher.has_sidecar


def _mismatch(launcher: Launcher, asked: Asked, expected: int) -> Decision:
    """Return what happens to a pod whose placeholders do not fit.

    The annotation of a running VMI can change, and reaches its migration target: that one is not ours, since its VM
    started without the devices and the result of its hook would be thrown away.
    """
    if launcher.is_migration_target:
        operations = [] if launcher.marker == SKIPPED else mark(launcher, SKIPPED, asked)
        warning = "the VMI started without its devices: the migration target gets none, they come with a restart"
        return Decision(Reason.SKIPPED, patch=Patch.of(operations), warnings=(warning,))
    found = "no whole number of" if launcher.placeholders < 0 else launcher.placeholders
    message = (
        f"the pod asks for {found} placeholder devices, expected are {expected}"
        f" ({', '.join(asked.device_names)}): the VMI was created without dravirt's webhook or in another mode,"
        " or its annotation changed since; restart the VM"
    )
    return Decision.deny(Reason.PLACEHOLDER_MISMATCH, message)


def _untrusted(request: AdmissionRequest, config: Config) -> Decision:
    message = (
        f"created by {request.username!r:.120}, but only {config.kubevirt_controller} may create a launcher pod with"
        " devices; is KubeVirt in another namespace? Set kubevirtNamespace in dravirt's configuration"
    )
    return Decision.deny(Reason.UNTRUSTED_CREATOR, message)
