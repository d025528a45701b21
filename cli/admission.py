"""The first half of a simulation: VM, VMI and launcher pod go through the webhooks, as in a cluster."""

import json
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from cli.account import Account
from cli.apiserver import Admitted, admit
from cli.artefacts import Artefacts
from cli.case import Case
from cli.manifests import to_yaml
from cli.process import Server, running
from cli.throwaway import issue
from dra.contract import DEVICES_ANNOTATION, PLACEHOLDER_RESOURCE
from dra.errors import Refused
from dra.reasons import Reason
from webhook.annotation import FIELD, TEMPLATE_FIELD, annotation_of, read_asked
from webhook.configfile import load_config
from webhook.launcher import Launcher
from webhook.raw import annotations, mapping, mappings

_OWNER = "vm-owner"
_LISTENING = "listening on "


@dataclass(frozen=True, slots=True)
class AdmittedVM:
    """What came out of admission."""

    vmi: dict[str, Any]
    pod: dict[str, Any]


def admit_all(case: Case, account: Account, artefacts: Artefacts) -> AdmittedVM:
    """Take the case's VM, VMI and pod through the webhooks, telling and keeping each step."""
    account.heading(1, "Asked: the annotation on the VM")
    _tell_asked(case, account)
    account.heading(2, "Admitted: the API server calls the webhooks")
    config = load_config(case.config)
    with _webhook(case, artefacts) as (server, client):
        account.fact("webhook", f"{client.base_url} ready after {server.seconds:.2f} s")
        admission = _Admission(case, config.kubevirt_controller, client, account, artefacts)
        vmi = admission.vmi()
        return AdmittedVM(vmi, admission.pod(vmi))


def _tell_asked(case: Case, account: Account) -> None:
    account.fact("VM", f"{case.namespace}/{mapping(case.vm, 'metadata').get('name')}")
    of_template = annotation_of(mapping(case.vm, "spec", "template"))
    text, field = (annotation_of(case.vm), FIELD) if of_template is None else (of_template, TEMPLATE_FIELD)
    if text is None:
        raise Refused(Reason.NOT_OPTED_IN, f"carries no {DEVICES_ANNOTATION}", path="virtualmachine.yaml")
    for request in read_asked(text, field).requests:
        source = f"template {request.template}" if request.template else f"claim {request.claim}"
        account.fact(request.name, f"{request.count} x {request.request or 'all'} of {source}")


@dataclass(frozen=True, slots=True)
class _Admission:
    """The case's objects on their way through the webhooks."""

    case: Case
    controller: str
    client: httpx.Client
    account: Account
    artefacts: Artefacts

    def vmi(self) -> dict[str, Any]:
        """Return the VMI as it is created for the case's VM."""
        vm = self._admit("VM", "/mutate/vm", self.case.vm, _OWNER).item
        vmi = self._admit("VMI", "/mutate/vmi", _vmi_of(vm), self.controller).item
        self.account.difference(_gpus(_vmi_of(vm)), _gpus(vmi))
        return vmi

    def pod(self, vmi: dict[str, Any]) -> dict[str, Any]:
        """Return the launcher pod of `vmi` as it is created."""
        rendered = _rendered_pod(self.case, vmi)
        pod = self._admit("pod", "/mutate/pod", rendered, self.controller).item
        self.account.difference(to_yaml(rendered), to_yaml(pod))
        again = self._admit("pod again", "/mutate/pod", pod, self.controller)
        if again.patch:
            raise Refused(Reason.CHECK_FAILED, "the webhook changed the pod again in a second pass")
        self._admit("last look", "/validate/pod", pod, self.controller)
        return pod

    def _admit(self, label: str, path: str, item: dict[str, Any], username: str) -> Admitted:
        admitted = admit(self.client, path, item, namespace=self.case.namespace, username=username)
        self.artefacts.write_admission(label.lower().replace(" ", "-"), admitted)
        self.account.fact(label, f"{path}: {admitted.reason}, {len(admitted.patch)} patch operations")
        for warning in admitted.warnings:
            self.account.fact("warning", warning)
        return admitted


def _vmi_of(vm: dict[str, Any]) -> dict[str, Any]:
    """Return the VMI that virt-controller makes of a VM. Source: KubeVirt watch/vm/vm.go, setupVMIFromVM."""
    template = mapping(vm, "spec", "template")
    name = {key: vm["metadata"][key] for key in ("name", "namespace") if key in vm["metadata"]}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {**mapping(template, "metadata"), **name},
        "spec": mapping(template, "spec"),
    }


def _rendered_pod(case: Case, vmi: dict[str, Any]) -> dict[str, Any]:
    """Return the case's launcher pod, after checking that KubeVirt would render it like this for `vmi`."""
    rendered = Launcher.of(case.pod)
    placeholders = sum(
        gpu.get("deviceName") == PLACEHOLDER_RESOURCE for gpu in mappings(vmi, "spec", "domain", "devices", "gpus")
    )
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
    arguments = [
        "webhook",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--health-port",
        "0",
        "--tls-cert",
        str(tls.certificate),
        "--tls-key",
        str(tls.key),
        "--tls-ca",
        str(tls.authority),
        "--drain-seconds",  # there is no endpoint to be taken out of first
        "0",
    ]
    if case.config:
        arguments += ["--config", str(case.config)]
    log = artefacts.write("webhook.log", "")
    with running(
        "webhook", arguments, log, ready=lambda server: _address(server) is not None, env=os.environ
    ) as server:
        context = ssl.create_default_context(cafile=str(tls.authority))
        with httpx.Client(base_url=str(_address(server)), verify=context, timeout=5.0, trust_env=False) as client:
            yield server, client


def _address(server: Server) -> str | None:
    """Return the address that the server says in its log, one JSON object a line."""
    for line in server.written().splitlines():
        message = str(json.loads(line)["message"]) if line.startswith("{") and line.endswith("}") else ""
        if message.startswith(_LISTENING):
            return message.removeprefix(_LISTENING)
    return None
