"""render: the webhooks' decisions at the door of the command."""

import io
import json
import sys
from pathlib import Path

import jsonpatch
import pytest
import yaml
from support.corpus import corpus_cases

from cli.main import main
from webhook.admission import HANDLERS
from webhook.config import Config
from webhook.decision import AdmissionRequest

EXAMPLE = Path(__file__).parents[2] / "examples" / "mig-backed-mdev"
VM = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachine",
    "metadata": {"name": "vm", "namespace": "lab", "annotations": {"dravirt.io/devices": "a100-1-5c"}},
    "spec": {"template": {"spec": {"domain": {"devices": {}}}}},
}


@pytest.fixture
def write(tmp_path):
    def write(item, name="object.yaml"):
        file = tmp_path / name
        file.write_text(item if isinstance(item, str) else yaml.safe_dump(item))
        return str(file)

    return write


def render(capsys, *argv):
    code = main(["render", *argv])
    output = capsys.readouterr()
    return code, output.out, output.err


def test_a_vm_is_printed_with_the_annotation_on_its_template(write, capsys):
    code, out, err = render(capsys, write(VM))

    assert code == 0
    assert yaml.safe_load(out)["spec"]["template"]["metadata"]["annotations"] == {"dravirt.io/devices": "a100-1-5c"}
    assert "copied" in err


def test_patch_prints_the_patch_alone(write, capsys):
    code, out, _ = render(capsys, "--patch", write(VM))

    assert code == 0
    assert jsonpatch.apply_patch(VM, json.loads(out))["spec"]["template"]["metadata"]


def test_json_comes_out_as_json_when_asked_for(write, capsys):
    assert json.loads(render(capsys, "-o", "json", write(VM))[1])["kind"] == "VirtualMachine"


def test_stdin_is_read_for_a_dash(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(VM).encode())))

    assert render(capsys, "-")[0] == 0


def test_a_denial_exits_with_1_and_nothing_on_stdout(write, capsys):
    wrong = {**VM, "metadata": {"name": "vm", "annotations": {"dravirt.io/devices": "[{name: gpu0}]"}}}
    code, out, err = render(capsys, write(wrong))

    assert code == 1
    assert out == ""
    assert "metadata.annotations[dravirt.io/devices][0]: needs exactly one of" in err
    assert "(reason: invalid_annotation)" in err


def test_warnings_go_to_stderr(write, capsys):
    direct = {**VM, "metadata": {"annotations": {"dravirt.io/devices": "[{name: gpu0, resourceClaimName: mine}]"}}}
    code, _, err = render(capsys, write(direct))

    assert code == 0
    assert "warning: claim 'mine' is used directly" in err


def test_the_configuration_of_an_installation_counts(write, capsys):
    vmi = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": "a", "annotations": {"dravirt.io/devices": "t"}},
        "spec": {"domain": {"devices": {}}},
    }
    config = write("mode: append\n", "config.yaml")

    assert "gpus" in render(capsys, write(vmi))[1]
    assert "gpus" not in render(capsys, "--config", config, write(vmi))[1]


@pytest.mark.parametrize(
    "text", ["", "a: [", "- a\n", "a: 1\n---\nb: 2\n", "\x00"], ids=["empty", "cut", "list", "two", "binary"]
)
def test_a_file_without_one_object_is_refused(write, text, capsys):
    code, out, err = render(capsys, write(text))

    assert code == 1
    assert out == ""
    assert "object.yaml" in err


def test_an_admission_review_is_taken_at_its_word(write, capsys):
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "1", "operation": "UPDATE", "object": VM, "oldObject": VM, "userInfo": {"username": "me"}},
    }
    code, out, err = render(capsys, "--patch", write(review))

    assert code == 0
    assert json.loads(out) == []
    assert "unchanged" in err


@pytest.mark.parametrize("case", corpus_cases("pods", tags=["v1.5.3", "main"], optin=True))
def test_the_command_and_the_webhook_are_two_doors_to_one_engine(case, write, capsys):
    pod = case.pod()
    decision = HANDLERS["/mutate/pod"].decide(
        AdmissionRequest("u", "Pod", "CREATE", "vms", "", Config().kubevirt_controller, pod), Config()
    )
    code, out, _ = render(capsys, "--patch", write(pod))

    assert code == (0 if decision.allowed else 1)
    assert (json.loads(out) if out else []) == list(decision.patch)


def test_the_validating_webhook_has_the_last_look_at_a_pod(write, capsys):
    """An injected pod is not changed again; one whose claims were dropped since is refused."""
    pod = yaml.safe_load((EXAMPLE / "launcher-pod.yaml").read_text())
    injected = yaml.safe_load(render(capsys, write(pod))[1])
    del injected["spec"]["resourceClaims"]

    code, out, err = render(capsys, write(injected))

    assert (code, out) == (1, "")
    assert "denied: " in err
    assert "claims" in err
