"""The command itself: what it teaches, and what its exit codes say."""

import subprocess
import sys

import pytest

from cli.main import COMMANDS, main

HEAVY = (
    "fastapi",
    "pydantic",
    "starlette",
    "uvicorn",
    "kubernetes",
    "httpx",
    "yaml",
    "orjson",
    "msgspec",
    "cryptography",
    "prometheus_client",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command_teaches_by_example(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])

    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert f"usage: dravirt {command}" in text
    assert "xample" in text


def test_help_lists_every_command(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])

    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert all(f"  {name}" in text for name in COMMANDS)


@pytest.mark.parametrize("argv", [["no-such-command"], ["render"], ["render", "a", "b"]])
def test_wrong_usage_exits_with_2(argv, capsys):
    with pytest.raises(SystemExit) as ended:
        main(argv)

    assert ended.value.code == 2
    assert capsys.readouterr().out == ""


def test_without_a_command_it_teaches_and_is_wrong_usage(capsys):
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert all(f"  {name}" in err for name in COMMANDS)


def test_a_file_that_cannot_be_read_exits_with_3_and_says_which(capsys):
    assert main(["render", "/nowhere/vm.yaml"]) == 3
    assert "/nowhere/vm.yaml: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--config", "--kubeconfig"])
def test_a_file_of_the_webhook_that_is_missing_stops_its_start_and_is_named_once(option, tmp_path):
    missing = tmp_path / "missing"
    command = [sys.executable, "-m", "cli", "webhook", "--plain-http", "--port=0", "--health-port=0", option, missing]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 3
    assert done.stderr.count(str(missing)) == 1
    assert done.stderr.endswith(f"{missing}: No such file or directory (reason: unreadable)\n")


def test_a_broken_object_exits_with_1(tmp_path, capsys):
    file = tmp_path / "vm.yaml"
    file.write_text("kind: Secret\napiVersion: v1\n")

    assert main(["render", str(file)]) == 1
    assert "must be one of VirtualMachine, VirtualMachineInstance, Pod" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["sidecar", "hook", "resolve"])
def test_commands_of_the_sidecar_load_nothing_heavy(command):
    code = (
        "import sys\nfrom cli.main import COMMANDS\nimport importlib\n"
        f"importlib.import_module(COMMANDS[{command!r}].module)\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert loaded.stdout.strip() == "[]"


def test_a_closed_pipe_is_no_error(tmp_path):
    big = tmp_path / "vm.yaml"
    big.write_text(
        "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: a}\nspec: {x: '" + "y" * 200_000 + "'}\n"
    )
    done = subprocess.run(
        f"{sys.executable} -m cli render {big} | head -c 10",
        shell=True,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "Traceback" not in done.stderr
    assert done.stdout.startswith("apiVersion")


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (["--port", "99999"], "must be between 0 and 65535, got 99999"),
        (["--port", "-1"], "must be between 0 and 65535, got -1"),
        (["--drain-seconds", "nan"], "must be between 0 and 3600, got nan"),
        (["--drain-seconds", "-1"], "must be between 0 and 3600, got -1"),
    ],
)
def test_an_option_out_of_its_range_is_wrong_usage(option, text, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["webhook", "--plain-http", *option])

    assert ended.value.code == 2
    assert text in capsys.readouterr().err
