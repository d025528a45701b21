"""The webhook's configuration as the doctor finds it in a cluster, and how it is changed by a command."""

import json
import shlex

import pytest
import yaml
from support.doctorfacts import NAMESPACE, deployment

from cli.doctor.settings import Source, change, option, read_settings, source


def settings(files: dict[str, str], key: str = "", **changes):
    item = {"metadata": {"name": "dravirt-config", "namespace": NAMESPACE}, "data": files}
    return read_settings(item, key, deployment(**changes))


def served(*args: str, mounted: str = "/etc/dravirt"):
    item = deployment()
    container = item["spec"]["template"]["spec"]["containers"][0]
    container["args"] = [*args]
    container["volumeMounts"] = [
        {"name": "other", "mountPath": "/other"},
        {"name": "config", "mountPath": mounted},
    ]
    return item


@pytest.mark.parametrize(
    ("item", "found"),
    [
        (served("webhook", "--config=/etc/dravirt/config.yaml"), Source("dravirt-config", "config.yaml")),
        (served("webhook", "--config", "/etc/dravirt/own.yaml"), Source("dravirt-config", "own.yaml")),
        (served("webhook", "--config=/etc/dravirt"), Source("dravirt-config", "")),
        (served("webhook", "--config=/etc/dravirt", mounted="/etc/dravirt/"), Source("dravirt-config", "")),
        (served("webhook", "--config=/elsewhere/config.yaml"), None),
        (served("webhook"), None),
    ],
)
def test_the_configuration_is_found_through_the_deployment(item, found):
    assert source(item) == found


@pytest.mark.parametrize(
    ("args", "value"),
    [
        (["--secret=tls"], "tls"),
        (["--secret", "tls"], "tls"),
        (["--secret", "--other"], "true"),
        (["--secret"], "true"),
        (["--secretive=tls"], ""),
        ([], ""),
    ],
)
def test_options_are_read_as_they_may_be_written(args, value):
    assert option({"command": ["dravirt"], "args": args}, "--secret") == value


def test_all_files_of_a_folder_are_one_configuration():
    whole = settings({"config.yaml": "{}\n", "service.yaml": "allocationService: {}\n", "notes.txt": "mode: none"})
    assert whole.fault == ""
    assert whole.config.allocation_service is not None


def test_one_file_is_read_alone_where_it_is_named():
    whole = settings({"config.yaml": "{}\n", "service.yaml": "allocationService: {}\n"}, "config.yaml")
    assert whole.config.allocation_service is None


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"config.yaml": "mode: none"}, "mode: must be one of"),
        ({"config.yaml": "a: [", "b.yaml": ""}, "is not YAML"),
        ({"config.yaml": "- a"}, "must be a mapping"),
        ({"a.yaml": "mode: append", "b.yaml": "mode: append"}, "a folder has each key once"),
    ],
)
def test_what_the_webhook_refuses_is_told(files, fault):
    assert fault in settings(files).fault


def test_the_sidecars_image_is_the_configured_one_before_that_of_the_deployment():
    item = deployment()
    item["spec"]["template"]["metadata"]["annotations"] = {"dravirt.io/sidecar-image": "given:0.2.0"}
    named = {"metadata": {}, "data": {"config.yaml": "sidecar: {image: 'named:0.3.0'}"}}
    assert read_settings(named, "", item).sidecar_image == "named:0.3.0"
    assert read_settings({"metadata": {}, "data": {}}, "", item).sidecar_image == "given:0.2.0"
    assert read_settings({"metadata": {}, "data": {}}, "", deployment()).sidecar_image.startswith(
        "dravirt-hooksidecar:"
    )


def changed(files: dict[str, str], key: str, value: object) -> tuple[str, str]:
    command = shlex.split(change(settings(files), key, value))
    assert command[:-1] == [
        *("kubectl", "-n", NAMESPACE, "patch", "configmap", "dravirt-config", "--type=merge", "-p")
    ]  # fmt: skip
    ((file, text),) = json.loads(command[-1])["data"].items()
    return file, text


@pytest.mark.parametrize(
    ("files", "file", "text"),
    [
        ({"config.yaml": "mode: append # ours\n"}, "config.yaml", 'mode: append # ours\nkubevirtNamespace: "cnv"\n'),
        ({"config.yaml": "kubevirtNamespace: a # b\nmode: x\n"}, "config.yaml", 'kubevirtNamespace: "cnv"\nmode: x\n'),
        ({"config.yaml": ""}, "config.yaml", 'kubevirtNamespace: "cnv"\n'),
        ({"config.yaml": "{}\n"}, "config.yaml", '{\n  "kubevirtNamespace": "cnv"\n}\n'),
        ({"config.yaml": "{}\n", "own.yaml": "kubevirtNamespace: a"}, "own.yaml", 'kubevirtNamespace: "cnv"'),
        ({}, "config.yaml", 'kubevirtNamespace: "cnv"\n'),
    ],
    ids=["added", "in its line", "to nothing", "to JSON", "where it stands", "to no file"],
)  # fmt: skip
def test_a_key_is_changed_where_it_stands_and_the_rest_stays(files, file, text):
    assert changed(files, "kubevirtNamespace", "cnv") == (file, text)


def test_a_key_of_several_lines_is_replaced_as_a_whole():
    _, text = changed(
        {"config.yaml": "attributes:\n  a.example.com:\n    profile: [p]\nmode: append\n"}, "attributes", {}
    )
    assert yaml.safe_load(text) == {"attributes": {}, "mode": "append"}


@pytest.mark.parametrize(
    "text",
    [
        "sidecar:\n\n  logLevel: debug\n",
        "sidecar:\n# ours\n  logLevel: debug\n",
        "sidecar: {logLevel: debug,\n}\n",
        "sidecar: # ours\n    logLevel: debug\nmode: append\n",
    ],
    ids=["an empty line", "a comment", "a brace", "deep"],
)
def test_however_a_key_is_written_the_changed_file_can_be_read(text):
    _, told = changed({"config.yaml": text}, "sidecar", {"image": "z"})
    assert yaml.safe_load(told) == {**yaml.safe_load(text), "sidecar": {"image": "z"}}
