"""`deploy/doctor` as its reader runs it: a Job on a node, in the webhook's image, with the rights that it brings."""

import subprocess
from collections.abc import Callable, Iterator

import pytest
import yaml

from cluster import programs
from cluster.api import Api, Object, is_true
from cluster.images import TREE, WEBHOOK_IMAGE
from cluster.node import Node
from cluster.process import until
from cluster.stack import Stack

pytestmark = pytest.mark.node
NAMESPACE = "dravirt-doctor"


@pytest.fixture
def job(stack: Stack, dravirt, drivers, node: Node, api: Api) -> Iterator[Callable[[], tuple[Object, str]]]:
    """Run the Job, and return it with its log."""
    kubectl = programs.build(programs.CONTROL_PLANE)["kubectl"]
    printed = subprocess.run([kubectl, "kustomize", TREE / "deploy" / "doctor"], capture_output=True, check=True).stdout
    items = list(yaml.safe_load_all(printed))
    (wanted,) = (each for each in items if each["kind"] == "Job")
    (container,) = wanted["spec"]["template"]["spec"]["containers"]
    container["image"] = WEBHOOK_IMAGE
    for each in items:
        if each is not wanted:
            api.apply(each)

    def run() -> tuple[Object, str]:
        until(lambda: api.get("v1", "ServiceAccount", NAMESPACE, NAMESPACE), seconds=30, what="its service account")
        made = api.create(wanted)

        def finished() -> Object | None:
            found = api.refresh(made)
            return found if is_true(found, "Complete") or is_true(found, "Failed") else None

        done = until(finished, seconds=120, what="the Job finished")
        (pod,) = api.list("v1", "Pod", NAMESPACE)
        said = node.logs(pod, "doctor")
        api.request("DELETE", api.path("batch/v1", "Job", NAMESPACE, NAMESPACE), {"propagationPolicy": "Foreground"})
        until(lambda: api.refresh(made) is None, seconds=60, what="it gone")
        until(lambda: not api.list("v1", "Pod", NAMESPACE), seconds=60, what="its pod gone")
        return done, said

    yield run
    for each in reversed(items):
        api.delete(each)


def test_the_job_says_what_is_wrong_and_fails(stack, job):
    done, said = job()
    assert is_true(done, "Complete"), said
    assert "mdev_deletion_possible" in said
    # It reads no Secret: the certificate is seen in a handshake, from its pod to the webhook.
    assert "certificate trusted, webhook answers" in said

    stack.kubevirt.configure({"permittedHostDevices": {"pciHostDevices": []}})
    try:
        done, said = job()
    finally:
        stack.kubevirt.configure({"permittedHostDevices": None})
    assert is_true(done, "Failed"), said
    assert "error: permit_missing: KubeVirt kubevirt/kubevirt" in said
