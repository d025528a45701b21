"""resolve: what a sidecar would find, at the door of the command."""

import json
from pathlib import Path

import pytest

from cli.main import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "mig-backed-mdev"
INTENT = {
    "version": 1,
    "mode": "placeholder",
    "devices": [{"name": "gpu0", "podClaim": "dravirt-gpu0", "template": "a100-1-5c", "claim": None, "count": 1}],
    "service": None,
}


def resolve(tmp_path, intent, root=EXAMPLE / "node"):
    file = tmp_path / "intent.json"
    file.write_text(intent if isinstance(intent, str) else json.dumps(intent))
    return main(["resolve", "--intent", str(file), "--root", str(root)])


def test_the_devices_are_printed_with_their_source(tmp_path, capsys):
    assert resolve(tmp_path, INTENT) == 0

    (device,) = json.loads(capsys.readouterr().out)
    assert device["name"] == "gpu0"
    assert device["kind"] == "vgpu-mdev"
    assert device["migBacked"] is True
    assert device["source"] == "metadata"


def test_a_device_that_no_source_knows_exits_with_3_since_it_may_come(tmp_path, capsys):
    (tmp_path / "sys").mkdir()
    code = resolve(tmp_path, INTENT, root=tmp_path)

    output = capsys.readouterr()
    assert (code, output.out) == (3, "")
    assert "no source knows which device was allocated" in output.err


def test_without_arguments_it_finds_what_the_sidecar_of_its_environment_finds(monkeypatch, capsys):
    root = EXAMPLE / "node"
    monkeypatch.setenv("DRAVIRT_INTENT", json.dumps(INTENT))
    monkeypatch.setenv("DRAVIRT_ROOT", str(root))
    monkeypatch.setenv("DRAVIRT_METADATA_DIR", f"{root}/var/run/kubernetes.io/dra-device-attributes")

    assert main(["resolve"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == "gpu0"


def test_without_an_intent_anywhere_it_names_the_variable(monkeypatch, capsys):
    monkeypatch.delenv("DRAVIRT_INTENT", raising=False)

    assert main(["resolve"]) == 1
    assert "DRAVIRT_INTENT: is not set" in capsys.readouterr().err


def test_a_root_that_is_no_folder_is_wrong_usage(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        resolve(tmp_path, INTENT, root=tmp_path / "nowhere")
    assert "--root: must be a folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    "intent", ["{", {**INTENT, "version": 2}, {**INTENT, "devices": []}], ids=["cut", "v2", "none"]
)
def test_a_broken_intent_exits_with_1(tmp_path, intent, capsys):
    assert resolve(tmp_path, intent) == 1
    assert "(reason: invalid_intent)" in capsys.readouterr().err
