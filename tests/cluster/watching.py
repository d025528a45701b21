"""What the suites do and wait for: the launcher pod of a VM, what it becomes, and its end."""

from cluster.api import Api, ApiError, Object, conditions, is_true
from cluster.machines import CLAIMS
from cluster.process import until

LAUNCHERS = "kubevirt.io=virt-launcher"
KUBEVIRT = "kubevirt.io/v1"


def launcher(api: Api, namespace: str, name: str = "vm1", *, seconds: float = 60) -> Object:
    """Return the launcher pod of a VMI, as soon as there is one that is not ending."""

    def found() -> Object | None:
        labels = f"{LAUNCHERS},vm.kubevirt.io/name={name}"
        pods = [
            each for each in api.list("v1", "Pod", namespace, labels) if "deletionTimestamp" not in each["metadata"]
        ]
        return pods[0] if pods else None

    pod = until(found, seconds=seconds, what=f"launcher pod of {namespace}/{name}", failed=reasons(api, namespace))
    return {"apiVersion": "v1", "kind": "Pod", **pod}


def running(api: Api, pod: Object, *, seconds: float = 120) -> Object:
    """Return the pod when all of its containers run and are ready."""

    def ready() -> Object | None:
        found = api.refresh(pod)
        return found if is_true(found, "Ready") else None

    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    return until(ready, seconds=seconds, what=f"pod {name} ready", failed=reasons(api, namespace))


def status_of(pod: Object, container: str) -> Object:
    """Return the status of a container of a pod."""
    statuses = (*pod["status"].get("initContainerStatuses", ()), *pod["status"].get("containerStatuses", ()))
    return next(each for each in statuses if each["name"] == container)


def bound(api: Api, pod: Object, *, seconds: float = 120) -> Object:
    """Return the pod when the scheduler has given it a node."""

    def has_node() -> Object | None:
        found = api.refresh(pod)
        return found if (found or {}).get("spec", {}).get("nodeName") else None

    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    return until(has_node, seconds=seconds, what=f"pod {name} bound", failed=reasons(api, namespace))


def unschedulable(api: Api, pod: Object, *, seconds: float = 30) -> str:
    """Return why the scheduler finds no node for a pod."""

    def reason() -> str | None:
        found = conditions(api.refresh(pod))
        return next((each["message"] for each in found if each.get("reason") == "Unschedulable"), None)

    return until(reason, seconds=seconds, what=f"pod {pod['metadata']['name']} unschedulable")


def restart(api: Api, namespace: str, name: str = "vm1") -> None:
    """Ask KubeVirt to restart a VM, as `virtctl restart` does."""
    path = f"/apis/subresources.kubevirt.io/v1/namespaces/{namespace}/virtualmachines/{name}/restart"
    api.request("PUT", path, {})


def replaced(api: Api, pod: Object, *, seconds: float = 90) -> Object:
    """Return the launcher pod that comes after `pod`."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["labels"]["vm.kubevirt.io/name"]

    def other() -> Object | None:
        labels = f"{LAUNCHERS},vm.kubevirt.io/name={name}"
        pods = api.list("v1", "Pod", namespace, labels)
        return next((each for each in pods if each["metadata"]["uid"] != pod["metadata"]["uid"]), None)

    found = until(other, seconds=seconds, what=f"another launcher pod of {name}", failed=reasons(api, namespace))
    return {"apiVersion": "v1", "kind": "Pod", **found}


def start_on_paper(api: Api, pod: Object) -> None:
    """Write what a kubelet would of a pod whose containers all run; nothing runs."""
    names = [each["name"] for each in pod["spec"]["containers"]]
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    containers = [
        {"name": name, "ready": True, "started": True, "state": state, "image": "", "imageID": "", "restartCount": 0}
        for name in names
    ]
    ready = [{"type": name, "status": "True"} for name in ("Ready", "ContainersReady", "Initialized")]
    status = {"phase": "Running", "conditions": ready, "containerStatuses": containers, "podIP": "10.88.0.9"}
    api.merge(pod, {"status": status}, subresource="status")


def in_phase(api: Api, namespace: str, phase: str, name: str = "vm1", *, seconds: float = 90) -> None:
    """Wait until a VMI is in a phase."""
    until(
        lambda: vmi_of(api, namespace, name)["status"].get("phase") == phase,
        seconds=seconds,
        what=f"VMI {namespace}/{name} {phase}",
        failed=reasons(api, namespace),
    )


def vmi_of(api: Api, namespace: str, name: str = "vm1") -> Object:
    """Return a VMI that is there."""
    found = api.get(KUBEVIRT, "VirtualMachineInstance", name, namespace)
    assert found, f"there is no VMI {namespace}/{name}"
    return found


def allocated(api: Api, namespace: str, *, count: int = 1, seconds: float = 60) -> list[Object]:
    """Return a namespace's claims when `count` of them are allocated."""

    def found() -> list[Object]:
        claims = api.list(CLAIMS, "ResourceClaim", namespace)
        ready = [each for each in claims if each.get("status", {}).get("allocation")]
        return ready if len(ready) >= count else []

    what = f"{count} allocated claims in {namespace}"
    return until(found, seconds=seconds, what=what, failed=reasons(api, namespace))


def told(api: Api, vm: Object, condition: str, status: str, *, seconds: float = 60) -> str:
    """Return the message of a condition of a VM, once the condition has this status."""

    def message() -> str | None:
        found = [each for each in conditions(api.refresh(vm)) if (each["type"], each["status"]) == (condition, status)]
        return found[0].get("message") if found else None

    what = f"VM {vm['metadata']['name']}: {condition}={status}"
    return until(message, seconds=seconds, what=what, failed=reasons(api, vm["metadata"]["namespace"]))


def reasons(api: Api, namespace: str):
    """Return what tells, when time is up, what the events and conditions of a namespace say."""

    def explain(*, late: bool) -> str | None:
        if not late:
            return None
        lines = [f"{each['reason']}: {each['message'][:300]}" for each in api.list("v1", "Event", namespace)[-15:]]
        for kind, version in (("VirtualMachine", KUBEVIRT), ("VirtualMachineInstance", KUBEVIRT), ("Pod", "v1")):
            for each in api.list(version, kind, namespace):
                shown = [f"{c['type']}={c['status']} {c.get('message', '')[:200]}" for c in conditions(each)]
                lines.append(f"{kind} {each['metadata']['name']}: {'; '.join(shown)}")
        return "\n" + "\n".join(lines)

    return explain


def events(api: Api, namespace: str, reason: str) -> list[str]:
    """Return the messages of a namespace's events of one reason."""
    return [each["message"] for each in api.list("v1", "Event", namespace) if each["reason"] == reason]


def impose(api: Api, quota: Object) -> None:
    """Apply a ResourceQuota and wait until it is in force: a moment later than it is there."""
    applied = api.apply(quota)
    until(lambda: api.refresh(applied).get("status", {}).get("hard"), seconds=60, what="the quota in force")


def over_quota(api: Api, namespace: str, quota: str) -> str:
    """Return the message of the event that a claim exceeds a ResourceQuota."""

    def message() -> str | None:
        said = events(api, namespace, "FailedResourceClaimCreation")
        return next((each for each in said if f"exceeded quota: {quota}" in each), None)

    return until(message, seconds=60, what=f"an event about quota {quota}")


def clear(api: Api, namespace: str) -> None:
    """Delete a namespace's VMs and wait until their pods and claims are gone."""
    kinds = ("VirtualMachine", "VirtualMachineInstanceReplicaSet", "VirtualMachineInstance")
    paths = [api.path(KUBEVIRT, kind, namespace) for kind in kinds] if _has_kubevirt(api) else []
    for path in paths:
        api.request("DELETE", path)
    until(lambda: not any(api.request("GET", each)["items"] for each in paths), seconds=90, what=f"{namespace} empty")
    for each in api.list("v1", "Pod", namespace):
        api.delete({"apiVersion": "v1", "kind": "Pod", **each}, now=True)
    api.request("DELETE", api.path(CLAIMS, "ResourceClaim", namespace))
    until(lambda: not api.list(CLAIMS, "ResourceClaim", namespace), seconds=60, what=f"claims of {namespace} gone")


def _has_kubevirt(api: Api) -> bool:
    try:
        api.path(KUBEVIRT, "VirtualMachine")
    except ApiError:
        return False
    return True
