"""The first half of a simulation: VM, VMI and launcher pod go through the webhooks, as in a cluster."""

import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from cli.account import Account, listed
from cli.apiserver import Admitted, admit
from cli.artefacts import Artefacts
from cli.case import Case
from cli.manifests import to_yaml
from cli.process import Server, running
from cli.throwaway import issue
from dra.contract import DEVICES_ANNOTATION, PLACEHOLDER_RESOURCE
from dra.errors import Failed, Refused
from dra.intent import Mode
from dra.reasons import Reason
from webhook.annotation import FIELD, annotation_of, read_asked
from webhook.config import Config
from webhook.configfile import load_config
from webhook.launcher import Launcher
from webhook.raw import annotations, mapping, mappings

_OWNER = "vm-owner"
_LISTENING = "listening on "

Admit = Callable[[str, dict[str, Any], str], Admitted]
"""Admits an object at a path, on behalf of a user."""


@dataclass(frozen=True, slots=True)
class AdmittedVM:
    """What came out of admission."""

    vmi: dict[str, Any]
    pod: dict[str, Any]
    mode: Mode


def admit_all(case: Case, account: Account, artefacts: Artefacts) -> AdmittedVM:
    """Take the case's VM, VMI and pod through the webhooks, telling and keeping each step."""
    config = load_config(str(case.config) if case.config else None)
    account.heading(1, "Asked: the annotation on the VM")
    _tell_asked(case, account)
    account.heading(2, "Admitted: the API server calls the webhooks")
    with _webhook(case, artefacts) as (server, client):
        account.fact("webhook", f"{client.base_url} ready after {server.seconds:.2f} s")

        def admit_here(path: str, item: dict[str, Any], username: str) -> Admitted:
            namespace = str(mapping(case.vm, "metadata").get("namespace", "default"))
            return admit(client, path, item, namespace=namespace, username=username)

        vmi = _admit_vmi(case, admit_here, account, artefacts)
        pod = _admit_pod(case, vmi, config, admit_here, account, artefacts)
    return AdmittedVM(vmi, pod, config.mode)


def _tell_asked(case: Case, account: Account) -> None:
    metadata = mapping(case.vm, "metadata")
    account.fact("VM", f"{metadata.get('namespace', 'default')}/{metadata.get('name')}")
    text = annotation_of(mapping(case.vm, "spec", "template")) or annotation_of(case.vm)
    if text is None:
        raise Refused(Reason.NOT_OPTED_IN, f"carries no {DEVICES_ANNOTATION}", path="virtualmachine.yaml")
    for request in read_asked(text, FIELD).requests:
        source = f"template {request.template}" if request.template else f"claim {request.claim}"
        account.fact(request.name, f"{request.count} x {request.request or 'all'} of {source}")


def _admit_vmi(case: Case, admit_here: Admit, account: Account, artefacts: Artefacts) -> dict[str, Any]:
    vm = admit_here("/mutate/vm", case.vm, _OWNER)
    _tell(account, artefacts, "VM", vm)
    vmi = admit_here("/mutate/vmi", _vmi_of(vm.item), _OWNER)
    _tell(account, artefacts, "VMI", vmi)
    account.difference(_gpus(_vmi_of(vm.item)), _gpus(vmi.item))
    return vmi.item


def _admit_pod(
    case: Case, vmi: dict[str, Any], config: Config, admit_here: Admit, account: Account, artefacts: Artefacts
) -> dict[str, Any]:
    rendered = _rendered_pod(case, vmi)
    pod = admit_here("/mutate/pod", rendered, config.kubevirt_controller)
    _tell(account, artefacts, "pod", pod)
    account.difference(to_yaml(rendered), to_yaml(pod.item))
    again = admit_here("/mutate/pod", pod.item, config.kubevirt_controller)
    if again.patch:
        raise Failed(Reason.NOT_SERVING, "the webhook changed the pod again in a second pass")
    account.fact("second pass", f"{again.reason}, no patch")
    account.fact("last look", admit_here("/validate/pod", pod.item, config.kubevirt_controller).reason)
    return pod.item


def _tell(account: Account, artefacts: Artefacts, name: str, admitted: Admitted) -> None:
    artefacts.write_admission(name.lower(), admitted)
    account.fact(name, f"{admitted.reason}, {len(admitted.patch)} patch operations")
    for warning in admitted.warnings:
        account.fact("warning", warning)


def _vmi_of(vm: dict[str, Any]) -> dict[str, Any]:
    """Return the VMI that virt-controller makes of a VM. Source: KubeVirt watch/vm/vm.go, setupVMIFromVM."""
    template, metadata = mapping(vm, "spec", "template"), mapping(vm, "metadata")
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {**mapping(template, "metadata"), "name": metadata.get("name"), "namespace": metadata.get("namespace")},
        "spec": mapping(template, "spec"),
    }


def _rendered_pod(case: Case, vmi: dict[str, Any]) -> dict[str, Any]:
    """Return the case's launcher pod, after checking that KubeVirt would render it like this for `vmi`."""
    rendered = Launcher.of(case.pod)
    placeholders = sum(gpu.get("deviceName") == PLACEHOLDER_RESOURCE for gpu in mappings(vmi, "spec", "domain", "devices", "gpus"))
    if rendered.placeholders != placeholders:
        message = f"asks for {rendered.placeholders} x {PLACEHOLDER_RESOURCE}, the VMI has {placeholders} placeholders"
        raise Refused(Reason.PLACEHOLDER_MISMATCH, message, path="launcher-pod.yaml")
    if annotations(case.pod).get(DEVICES_ANNOTATION) != annotation_of(vmi):
        message = f"carries another {DEVICES_ANNOTATION} than the VMI: KubeVirt copies it"
        raise Refused(Reason.PLACEHOLDER_MISMATCH, message, path="launcher-pod.yaml")
    return case.pod


def _gpus(vmi: dict[str, Any]) -> str:
    devices = mapping(vmi, "spec", "domain", "devices")
    return to_yaml({"gpus": devices["gpus"]}) if "gpus" in devices else ""


@contextmanager
def _webhook(case: Case, artefacts: Artefacts) -> Iterator[tuple[Server, httpx.Client]]:
    """Run the webhook's server over HTTPS on a free port of loopback and yield it with a client that trusts it."""
    tls = issue(artefacts.write("tls/README", "Made for one run of `dravirt simulate`: throw it away.\n").parent)
    arguments = ["webhook", "--host", "127.0.0.1", "--port", "0", "--tls-cert", str(tls.certificate), "--tls-key", str(tls.key)]
    if case.config:
        arguments += ["--config", str(case.config)]
    log = artefacts.write("webhook.log", "")
    with running("webhook", arguments, log, ready=lambda server: _address(server) is not None, env=os.environ) as server:
        context = ssl.create_default_context(cafile=str(tls.authority))
        with httpx.Client(base_url=str(_address(server)), verify=context, timeout=5.0, trust_env=False) as client:
            yield server, client


def _address(server: Server) -> str | None:
    for line in server.written().splitlines():
        if _LISTENING in line:
            return line.partition(_LISTENING)[2].split()[0].strip('",}')
    return None
