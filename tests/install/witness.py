"""A VM that runs while all sorts of things happen to dravirt, and what would show that it was touched."""

from dataclasses import dataclass

from cluster import handler, machines, watching
from cluster.api import Api, Object
from cluster.stack import Stack

NAMESPACE, NAME = "witness", "vm1"


@dataclass(frozen=True, slots=True)
class Witness:
    """The VM's launcher pod as it was when the VM had come to run."""

    api: Api
    namespace: str
    pod: Object

    def is_untouched(self) -> bool:
        """True where the VM runs in the same pod, none of whose containers was ever started again."""
        pod, vmi = self.api.refresh(self.pod), watching.vmi_of(self.api, self.namespace, NAME)
        assert pod
        same = pod["metadata"]["uid"] == self.pod["metadata"]["uid"] and pod["spec"] == self.pod["spec"]
        return same and vmi["status"]["phase"] == "Running" and restarts(pod) == 0

    def another_pod(self) -> Object:
        """Return a pod like the VM's that was not created yet."""
        metadata = self.pod["metadata"]
        kept = {name: metadata[name] for name in ("labels", "annotations", "ownerReferences")}
        spec = {name: value for name, value in self.pod["spec"].items() if name != "nodeName"}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**kept, "name": "load", "namespace": self.namespace},
            "spec": spec,
        }


def restarts(pod: Object) -> int:
    """Return how often the kubelet has started containers of a pod again."""
    status = pod["status"]
    each = (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
    return sum(container["restartCount"] for container in each)


def start_witness(stack: Stack) -> Witness:
    """Bring a VM with a device up as far as there is something to bring it up."""
    api = stack.api
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    api.apply(machines.template(NAMESPACE, "vgpu", machines.request("time-sliced")))
    api.apply(machines.vm(NAMESPACE, NAME, asks="vgpu"))
    pod = watching.running(api, watching.launcher(api, NAMESPACE, NAME))
    watching.in_phase(api, NAMESPACE, "Scheduled", NAME)
    vmi = watching.vmi_of(api, NAMESPACE, NAME)
    definition = handler.define(stack.node, pod, vmi)
    assert not definition.error, definition.error
    handler.set_phase(stack.handler, vmi, "Running")
    watching.in_phase(api, NAMESPACE, "Running", NAME)
    return Witness(api, NAMESPACE, {"apiVersion": "v1", "kind": "Pod", **(api.refresh(pod) or {})})
