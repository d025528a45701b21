"""What is tried in a dry run, which changes nothing, and what its answer says.

A pod with a claim and a native sidecar: an API server whose DRA is switched off still serves resource.k8s.io and takes
the pod, and drops the claims without a word. And a VM that asks for devices wrongly: dravirt must deny it.
"""

from collections.abc import Iterator
from typing import Any

from cli.doctor import remedies
from cli.doctor.codes import Code
from cli.doctor.facts import Objects, Place, RawObject, Verdict
from cli.doctor.finding import Finding
from cli.doctor.kubevirt import parse
from cli.doctor.registration import register_vms
from cli.doctor.versions import add_flags
from dra.contract import DEVICES_ANNOTATION
from dra.reasons import Reason
from webhook.raw import mapping, mappings

NAME = "dravirt-doctor"
_CLAIM = "device"
_IMAGE = "registry.k8s.io/pause:3.10"
_DRA_STABLE = (1, 34)
_OURS = 'webhook "vm.dravirt.io" denied the request'
_FAILED = 'failed calling webhook "vm.dravirt.io"'
_OK = 300


def pod(namespace: str) -> RawObject:
    """Return the pod to try: as small as the Pod Security Standard "restricted" and a quota take it."""
    container: dict[str, Any] = {
        "image": _IMAGE,
        "resources": {
            "claims": [{"name": _CLAIM}],
            "requests": {"cpu": "1m", "memory": "1Mi"},
            "limits": {"cpu": "1m", "memory": "1Mi"},
        },
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65534,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "resourceClaims": [{"name": _CLAIM, "resourceClaimTemplateName": NAME}],
            "initContainers": [{**container, "name": "sidecar", "restartPolicy": "Always"}],
            "containers": [{**container, "name": "main"}],
        },
    }


def vm(namespace: str) -> RawObject:
    """Return the VM to try: its annotation is a list without an entry, which dravirt denies."""
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {
            "runStrategy": "Halted",
            "template": {
                "metadata": {"annotations": {DEVICES_ANNOTATION: "[]"}},
                "spec": {"domain": {"devices": {}, "memory": {"guest": "64Mi"}}},
            },
        },
    }


def check_pod(verdict: Verdict, version: str) -> Iterator[Finding]:
    """Find an API server that drops what dravirt adds to a pod."""
    spec = mapping(verdict.item, "spec")
    containers = [*mappings(spec, "initContainers"), *mappings(spec, "containers")]
    kept = [bool(mappings(each, "resources", "claims")) for each in containers]
    if not mappings(spec, "resourceClaims") or not all(kept):
        what = "it took a pod with a claim, and the claim was gone: DynamicResourceAllocation is switched off"
        yield Finding(Code.DRA_OFF, "API server", what, _switch_on(version))
    if not any(each.get("restartPolicy") == "Always" for each in mappings(spec, "initContainers")):
        what = "it took a pod with a native sidecar, and restartPolicy was gone: SidecarContainers is switched off"
        yield Finding(Code.NO_NATIVE_SIDECARS, "API server", what, _gate_on("SidecarContainers"))


def tells(verdict: Verdict) -> bool:
    """True for an answer about the VM that says something of dravirt's webhook; what others deny does not."""
    return verdict.code < _OK or _OURS in verdict.message or _FAILED in verdict.message


def check_vm(verdict: Verdict, place: Place, registrations: Objects | None) -> Iterator[Finding]:
    """Find a webhook that is not asked or does not answer."""
    if _OURS in verdict.message and Reason.INVALID_ANNOTATION in verdict.message:
        return
    subject = "webhook vm.dravirt.io"
    if _FAILED in verdict.message:
        _, _, why = verdict.message.partition(f"{_FAILED}: ")
        remedy = remedies.restart(place.service, place.namespace)
        yield Finding(Code.WEBHOOK_UNREACHABLE, subject, f"the API server cannot call it: {why}", remedy)
    elif verdict.code < _OK:
        what = "the API server took a VM with a wrong annotation: no webhook of dravirt was asked about it"
        yield Finding(Code.WEBHOOK_NOT_ASKED, subject, what, register_vms(registrations or (), place))


def _switch_on(version: str) -> str:
    if (number := parse(version)) and number < _DRA_STABLE:
        return add_flags("--feature-gates=DynamicResourceAllocation=true")
    return _gate_on("DynamicResourceAllocation")


def _gate_on(gate: str) -> str:
    """Return how a gate that is on by default and was switched off is switched on again, on a kubeadm node."""
    return f"sudo sed -i 's/{gate}=false/{gate}=true/' /etc/kubernetes/manifests/kube-apiserver.yaml"
