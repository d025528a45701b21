"""DRA switched off in the API server, which serves resource.k8s.io all the same and drops claims without a word."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from cli.doctor import dryrun
from cluster import machines, sandbox
from cluster.api import conditions
from cluster.images import TREE
from cluster.process import until
from cluster.stack import Stack, open_stack

pytestmark = pytest.mark.dra_off
RECORDED = TREE / "tests" / "cli" / "doctor" / "answers" / "dra-off.json"


@pytest.fixture(scope="module")
def without_dra() -> Iterator[Stack]:
    """KubeVirt and dravirt on an API server whose DRA is off."""
    with open_stack(sandbox.current(), dra=False) as stack:
        _ = stack.kubevirt, stack.dravirt
        yield stack


def shape(item: object) -> object:
    """Return an answer without what is another each time."""
    if not isinstance(item, dict):
        return [shape(each) for each in item] if isinstance(item, list) else item
    kept = {
        key: shape(value) for key, value in item.items() if key not in {"uid", "creationTimestamp", "managedFields"}
    }
    return dict(sorted(kept.items()))


def test_the_answer_to_a_pod_with_a_claim_is_the_recorded_one(without_dra):
    path = "/api/v1/namespaces/default/pods"
    answer = without_dra.api.request("POST", path, dryrun.pod("default"), params={"dryRun": "All"})

    assert shape(answer) == shape(json.loads(RECORDED.read_text()))


def test_the_doctor_says_so_and_how_it_is_switched_on(without_dra):
    kubeconfig = without_dra.control_plane.kubeconfig()
    command = [sys.executable, "-m", "cli", "doctor", f"--kubeconfig={kubeconfig}", "-o", "json"]
    done = subprocess.run(command, cwd=TREE, capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 1, done.stderr
    found = {each["code"]: each for each in json.loads(done.stdout)["findings"]}
    assert "DynamicResourceAllocation" in found["dra_off"]["remedy"]


def test_the_pod_of_a_vm_that_asks_for_devices_is_refused_and_the_vm_says_why(without_dra):
    api = without_dra.api
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}})
    api.apply(machines.vm("lab", asks="vgpu"))

    def denial() -> str | None:
        vmis = api.list("kubevirt.io/v1", "VirtualMachineInstance", "lab")
        texts = (condition.get("message", "") for vmi in vmis for condition in conditions(vmi))
        return next((text for text in texts if "claims_dropped" in text), None)

    assert "DynamicResourceAllocation" in until(denial, seconds=60, what="the denial on the VMI")
    assert api.list("v1", "Pod", "lab") == []
