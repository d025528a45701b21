"""A namespace whose VMs run on the node, and what their owner, the kubelet and virt-handler do there."""

import json
import os
import signal
from dataclasses import dataclass
from typing import Any

from cluster import handler, machines, watching
from cluster.api import Api, Object
from cluster.dravirt import Dravirt
from cluster.drivers import Drivers
from cluster.handler import Definition
from cluster.process import until
from cluster.stack import Stack

SIDECAR = "dravirt-hook"


@dataclass(frozen=True)
class Site:
    """`service` is dravirt with its allocation service on."""

    stack: Stack
    service: Dravirt
    namespace: str

    @property
    def api(self) -> Api:
        return self.stack.api

    @property
    def drivers(self) -> Drivers:
        return self.stack.drivers

    # What the owner does.

    def template(self, name: str, *requests: Object) -> None:
        self.api.apply(machines.template(self.namespace, name, *requests))

    def claim(self, name: str, *requests: Object) -> None:
        self.api.apply(machines.claim(self.namespace, name, *requests))

    def apply(self, name: str = "vm1", *, asks: str) -> Object:
        """Apply a VM and return its launcher pod as soon as it is there."""
        self.api.apply(machines.vm(self.namespace, name, asks=asks))
        return watching.launcher(self.api, self.namespace, name)

    def running(self, pod: Object) -> Object:
        """Return the pod when all of it runs."""
        return watching.running(self.api, pod)

    def boot(self, name: str = "vm1", *, asks: str) -> tuple[Object, Definition]:
        """Apply a VM and bring it to its domain, as far as KubeVirt, the node and the launcher's stand-in go."""
        pod = self.running(self.apply(name, asks=asks))
        return pod, self.define(pod)

    # What virt-handler does.

    def define(self, pod: Object) -> Definition:
        """Let the hooks in `pod` change the domain of its VMI."""
        name = pod["metadata"]["labels"]["vm.kubevirt.io/name"]
        return handler.define(self.stack.node, pod, watching.vmi_of(self.api, self.namespace, name))

    def defined(self, pod: Object, *, seconds: float = 60) -> Definition:
        """Return the domain, asked for again and again. Raises NotReady with the error of the last time."""
        said: list[str | None] = []

        def once() -> Definition | None:
            definition = self.define(pod)
            said.append(definition.error)
            return definition if definition.error is None else None

        return until(once, seconds=seconds, what="a domain", failed=lambda *, late: f": {said[-1]}" if late else None)

    # What the sidecar does.

    def said(self, pod: Object, message: str) -> list[Any]:
        """Return what the sidecar logged under `message`, its last restart included."""
        entries = [json.loads(line[line.index("{") :]) for line in self._log(pod) if "{" in line]
        return [each for each in entries if each["message"] == message]

    def sources(self, pod: Object) -> set[str]:
        """Return which sources told the sidecar its devices, when it asked last."""
        return {each["source"] for each in self.said(pod, "devices found")[-1]["devices"]}

    def kill_sidecar(self, pod: Object) -> Object:
        """End the sidecar by SIGKILL, and return the pod when all of it is ready again."""
        pod = {**pod, **(self.api.refresh(pod) or {})}
        before = self._served_last(pod)
        os.kill(self.stack.node.pid(pod, SIDECAR), signal.SIGKILL)
        # Its log tells: until it has started, the socket that the killed one left makes the pod look ready.
        until(lambda: self._served_last(pod) not in ("", before), seconds=60, what="the sidecar serving again")
        return self.running(pod)

    def _served_last(self, pod: Object) -> str:
        """Return the last line of the log that says so, "" where a new log holds none and the old ones are gone."""
        return next((line for line in reversed(self._log(pod)) if '"serving on ' in line), "")

    def _log(self, pod: Object) -> list[str]:
        return self.stack.node.logs(pod, SIDECAR).splitlines()

    # What the scheduler and the drivers did.

    def allocated(self) -> list[tuple[str, str]]:
        """Return request and identity of the devices that the namespace's claims hold, in their order in a VM."""
        claims = self.api.list(machines.CLAIMS, "ResourceClaim", self.namespace)
        results = [each for claim in claims for each in claim["status"]["allocation"]["devices"]["results"]]
        results.sort(key=lambda each: (each["request"], each["driver"], each["pool"], each["device"]))
        return [(each["request"], self.drivers.identity(each["device"])) for each in results]

    def identities(self) -> list[str]:
        """Return the identities of the devices that the namespace's claims hold, in their order in a VM."""
        return [identity for _, identity in self.allocated()]
