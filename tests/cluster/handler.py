"""What virt-handler would do, which does not run here: hand a VMI to its launcher, and write what comes of it."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from support.domains import host_devices, identity

from cluster.api import Api, Object, conditions, is_true
from cluster.node import Node
from cluster.process import until

_SOCKET = "stand-in.sock"


@dataclass(frozen=True, slots=True)
class Definition:
    """What the hooks made of a VMI's domain: each pass with what went in and what came out, or the error."""

    passes: tuple[tuple[str, str], ...]
    error: str | None

    @property
    def domain(self) -> str:
        """The domain that libvirt would be given."""
        assert self.error is None, self.error
        return self.passes[-1][1]


def define(node: Node, pod: Object, vmi: Object) -> Definition:
    """Let the launcher's stand-in in `pod` build the domain of `vmi` and its hooks change it."""
    return define_at(node.volume(pod, "sockets"), vmi)


def define_at_last(node: Node, pod: Object, vmi: Object, *, seconds: float = 90) -> Definition:
    """Try it again and again until the hooks refuse nothing, as virt-handler does. Raises NotReady."""

    def defined() -> Definition | None:
        found = define(node, pod, vmi)
        return found if found.error is None else None

    return until(defined, seconds=seconds, what=f"a domain of {vmi['metadata']['name']}")


def define_at(sockets: Path, vmi: Object) -> Definition:
    """Let the launcher's stand-in whose socket is in the folder `sockets` do the same."""
    until((sockets / _SOCKET).exists, seconds=90, what="the hooks collected by the launcher's stand-in")
    folder = os.open(sockets, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # A socket's path holds 107 characters; through the open folder it is short.
        # It is there a moment before anybody listens on it: only a connection that fails is tried again.
        transport = httpx.HTTPTransport(uds=f"/proc/self/fd/{folder}/{_SOCKET}", retries=5)
        with httpx.Client(transport=transport, timeout=90) as client:
            answer: dict[str, Any] = client.post("http://launcher/", json=vmi).json()
    finally:
        os.close(folder)
    passes = tuple((each["in"], each.get("out", "")) for each in answer["passes"])
    return Definition(passes, answer.get("error"))


def attached(definition: Definition) -> dict[str, str]:
    """Return the identity of each device of a domain, an mdev UUID or a PCI address, by its name in the VM."""
    devices = host_devices(definition.domain.encode())
    return {str(alias).removeprefix("ua-gpu-"): identity(each) for alias, each in sorted(devices.items())}


def report(api: Api, vmi: Object, definition: Definition) -> None:
    """Write the outcome into the VMI's Synchronized condition; `api` must act as virt-handler."""
    condition = {"type": "Synchronized", "status": "True" if definition.error is None else "False"}
    if definition.error is not None:
        # Source: pkg/virt-handler/controller.go, the words before virt-launcher's error.
        message = f"server error. command SyncVMI failed: {definition.error!r}"
        condition |= {"reason": "Synchronizing with the Domain failed.", "message": message}
    set_condition(api, vmi, condition)


def set_condition(api: Api, vmi: Object, condition: Object) -> None:
    """Write a condition of a VMI; `api` must act as virt-handler."""
    others = [each for each in conditions(vmi) if each["type"] != condition["type"]]
    api.merge(vmi, {"status": {"conditions": [*others, condition]}})


def set_phase(api: Api, vmi: Object, phase: str) -> None:
    """Move a VMI along; `api` must act as virt-handler."""
    api.merge(vmi, {"status": {"phase": phase}})


def start_guests(api: Api, node: Node, domains: Path) -> None:
    """Take VMIs whose launchers run to Running, as virt-handler does; each domain is written to `domains`."""
    for vmi in api.request("GET", "/apis/kubevirt.io/v1/virtualmachineinstances")["items"]:
        namespace, name = vmi["metadata"]["namespace"], vmi["metadata"]["name"]
        selector = {"labelSelector": f"vm.kubevirt.io/name={name},kubevirt.io=virt-launcher"}
        for pod in api.request("GET", f"/api/v1/namespaces/{namespace}/pods", params=selector)["items"]:
            if vmi["status"].get("phase") == "Scheduled" and is_true(pod, "Ready"):
                definition = define(node, pod, vmi)
                report(api, vmi, definition)
                if definition.error is None:
                    (domains / f"{namespace}_{name}.xml").write_text(definition.domain)
                    set_phase(api, vmi, "Running")


def end_vmis(api: Api) -> None:
    """Let VMIs that are being deleted come to their end, as when their guests have shut down."""
    for each in api.request("GET", "/apis/kubevirt.io/v1/virtualmachineinstances")["items"]:
        if "deletionTimestamp" in each["metadata"] and each["status"].get("phase") in ("Scheduled", "Running"):
            set_phase(api, each, "Succeeded")
