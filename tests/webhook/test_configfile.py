"""The configuration file: every key, every wrong value with its place, and a file that changes under the server."""

import logging
import os

import pytest

from dra.attributes import AttributeNames
from dra.errors import Failed, Refused
from dra.intent import Mode
from dra.reasons import Reason
from webhook.config import Config, Installation, Resources, SidecarConfig
from webhook.configfile import ConfigFile, load_config, read_config

WHOLE = """
mode: append
sidecar:
  image: registry.example.org:5000/dravirt/hooksidecar:1.2
  resources:
    requests: {cpu: 100m, memory: 96Mi}
    limits: {cpu: 1, memory: 96Mi}
  imagePullSecrets:
  - name: registry
  - name: other.registry
  logLevel: debug
kubevirtNamespace: openshift-cnv
attributes:
  gpu.example.com:
    mdevUUID: [uuid]
    pciAddress: [gpu.example.com/address]
environment:
  gpu.example.com: [EXAMPLE_MDEV_UUID, MDEV_PCI_RESOURCE_EXAMPLE_COM_T4-2Q]
"""


def test_every_key_is_read():
    config, warnings = read_config(WHOLE, path="config.yaml")

    assert config == Config(
        mode=Mode.APPEND,
        sidecar=SidecarConfig(
            image="registry.example.org:5000/dravirt/hooksidecar:1.2",
            resources=Resources(cpu_request="100m", cpu_limit="1", memory="96Mi"),
            image_pull_secrets=("registry", "other.registry"),
            log_level="debug",
        ),
        kubevirt_namespace="openshift-cnv",
        attributes={
            "gpu.example.com": AttributeNames(mdev_uuid=("uuid",), pci_address=("gpu.example.com/address",)),
        },
        environment={"gpu.example.com": ("EXAMPLE_MDEV_UUID", "MDEV_PCI_RESOURCE_EXAMPLE_COM_T4-2Q")},
    )
    assert warnings == []


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}", "sidecar:\nmode:\nattributes: {}\nallocationService:\n"])
def test_every_key_has_a_default(text):
    assert read_config(text, path="config.yaml") == (Config(), [])


RESOURCES = {
    "memory as a limit": ("limits: {memory: 1Gi}", Resources(memory="1Gi")),
    "memory as a request": ("requests: {memory: 1Gi}", Resources(memory="1Gi")),
    "memory spelled in two ways": ("{requests: {memory: 1Gi}, limits: {memory: 1024Mi}}", Resources(memory="1024Mi")),
    "whole cores": ("{requests: {cpu: 1}, limits: {cpu: 1.5}}", Resources(cpu_request="1", cpu_limit="1.5")),
}


@pytest.mark.parametrize(("text", "resources"), RESOURCES.values(), ids=RESOURCES)
def test_resources_are_written_as_those_of_a_container(text, resources):
    config, warnings = read_config(f"sidecar:\n  resources:\n    {text}\n", path="config.yaml")

    assert config.sidecar.resources == resources
    assert warnings == []


UNKNOWN = {
    "mod: append": "mod: is not a known field: did you mean mode?",
    "sidecar: {images: x}": "sidecar.images: is not a known field: did you mean image?",
    "sidecar: {resources: {limit: {cpu: 1}}}": "sidecar.resources.limit: is not a known field: did you mean limits?",
    "sidecar: {resources: {limits: {gpu: 1}}}": "sidecar.resources.limits.gpu: is not a known field",
    "sidecar: {imagePullSecrets: [{name: x, nam: y}]}": "sidecar.imagePullSecrets[0].nam: is not a known field",
    "attributes: {gpu.example.com: {mdevUuid: [x]}}": "attributes.gpu.example.com.mdevUuid: is not a known field",
}


@pytest.mark.parametrize(("text", "warning"), UNKNOWN.items(), ids=UNKNOWN)
def test_an_unknown_key_is_reported_and_ignored(text, warning):
    _, warnings = read_config(text, path="config.yaml")

    assert len(warnings) == 1
    assert warnings[0].startswith(f"config.yaml: {warning}")


WRONG = {
    "not YAML": ("a: [", "is not YAML: line "),
    "duplicate key": ("mode: append\nmode: append\n", "is not YAML: line 2, column 1: duplicate key 'mode'"),
    "a list": ("- mode", "must be a mapping of fields, got a list"),
    "mode": ("mode: both", "mode: must be one of placeholder, append; got 'both'"),
    "mode of another type": ("mode: 1", "mode: must be text"),
    "sidecar is text": ("sidecar: x", "sidecar: must be a mapping"),
    "HS-21 empty image": ("sidecar: {image: ''}", "sidecar.image: must be an image reference"),
    "HS-21 image without a value": ("sidecar:\n  image:\n", "sidecar.image: is required"),
    "HS-21 malformed image": ("sidecar: {image: 'https://x/y'}", "sidecar.image: must be an image reference"),
    "HS-21 image left as a template": ("sidecar: {image: '{{ .image }}'}", "sidecar.image: must be an image reference"),
    "HS-21 image is a number": ("sidecar: {image: 1.5}", "sidecar.image: must be text"),
    "no quantity": ("sidecar: {resources: {limits: {cpu: lots}}}", "sidecar.resources.limits.cpu: not a Kubernetes qu"),
    "negative quantity": ("sidecar: {resources: {limits: {cpu: -1}}}", "sidecar.resources.limits.cpu: not a Kubernete"),
    "no memory": ("sidecar: {resources: {limits: {memory: 0}}}", "sidecar.resources.limits.memory: must be more than"),
    "quantity is true": ("sidecar: {resources: {limits: {cpu: true}}}", "sidecar.resources.limits.cpu: not a Kubern"),
    "memory request and limit differ": (
        "sidecar: {resources: {requests: {memory: 64M}, limits: {memory: 64Mi}}}",
        "sidecar.resources.requests.memory: must equal limits.memory (64Mi), got 64M",
    ),
    "request above the limit": (
        "sidecar: {resources: {requests: {cpu: 500m}, limits: {cpu: 200m}}}",
        "sidecar.resources.requests.cpu: must be at most limits.cpu (200m), got 500m",
    ),
    "request above the default limit": (
        "sidecar: {resources: {requests: {cpu: 1}}}",
        "sidecar.resources.requests.cpu: must be at most limits.cpu (200m), got 1",
    ),
    "pull secret as text": ("sidecar: {imagePullSecrets: [x]}", "sidecar.imagePullSecrets[0]: must be a mapping"),
    "pull secret's name": ("sidecar: {imagePullSecrets: [{name: X}]}", "sidecar.imagePullSecrets[0].name: must be a K"),
    "log level": ("sidecar: {logLevel: verbose}", "sidecar.logLevel: must be one of debug, info, warning, error"),
    "namespace": ("kubevirtNamespace: kube.virt", "kubevirtNamespace: must be a DNS label"),
    "empty namespace": ("kubevirtNamespace: ''", "kubevirtNamespace: must be a DNS label"),
    "driver": ("attributes: {'GPU': {}}", "attributes.GPU: must be the name of a DRA driver"),
    "attribute": ("attributes: {g.com: {mdevUUID: ['a b']}}", "attributes.g.com.mdevUUID[0]: must be an attribute"),
    "variable": ("environment: {g.com: ['A=B']}", "environment.g.com[0]: must be the name of an environment variable"),
    "an empty URL": ("allocationService: {url: '', caFile: c}", "allocationService.url: must not be empty"),
    "an empty server name": (
        "allocationService: {serverName: '', caFile: c}",
        "allocationService.serverName: must not be",
    ),
    "an empty file name": ("allocationService: {caFile: ''}", "allocationService.caFile: must"),
    "service without TLS": ("allocationService: {url: 'http://d', caFile: c}", "allocationService.url: must be https:"),
    "service with a path": ("allocationService: {url: 'https://d/p', caFile: c}", "allocationService.url: must be htt"),
    "server name": ("allocationService: {serverName: 'a b', caFile: c}", "allocationService.serverName: must be a DNS"),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_value_refuses_the_file_and_names_the_setting(text, message):
    with pytest.raises(Refused) as refused:
        read_config(text, path="/etc/dravirt/config.yaml")

    assert str(refused.value).startswith(f"/etc/dravirt/config.yaml: {message}")
    assert refused.value.reason is Reason.INVALID_CONFIGURATION


def test_without_a_file_the_defaults_count(clock):
    assert load_config(None) == Config()
    assert ConfigFile(None, clock=clock).current() == Config()


IMAGES = {"no file": (None, "r/given:1"), "empty": ("", "r/given:1"), "own": ("sidecar: {image: r/own:1}", "r/own:1")}


@pytest.mark.parametrize(("text", "image"), IMAGES.values(), ids=IMAGES)
def test_the_installations_image_counts_where_the_file_names_none(tmp_path, text, image):
    file = None if text is None else tmp_path / "config.yaml"
    if file:
        file.write_text(text)
    assert load_config(file, Installation(sidecar_image="r/given:1")).sidecar.image == image


def test_a_file_that_is_missing_is_named_once(tmp_path):
    with pytest.raises(Failed) as failed:
        load_config(tmp_path / "none.yaml")
    assert failed.value.message == f"{tmp_path}/none.yaml: No such file or directory"


@pytest.mark.parametrize("content", [None, b"\xff\xfe"], ids=["missing", "not UTF-8"])
def test_a_file_that_cannot_be_read_may_be_mended(tmp_path, content):
    file = tmp_path / "config.yaml"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(Failed, match=str(file)) as failed:
        load_config(file)

    assert failed.value.reason is Reason.UNREADABLE


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("mode: placeholder\n")
    return path


def test_a_change_counts_after_a_second_at_most(file, clock):
    config = ConfigFile(file, clock=clock)
    file.write_text("mode: append\n")

    clock.now += 0.9
    assert config.current().mode is Mode.PLACEHOLDER
    clock.now += 0.1
    assert config.current().mode is Mode.APPEND


def test_a_change_that_keeps_size_and_modification_time_counts(file, clock):
    config = ConfigFile(file, clock=clock)
    before = file.stat()
    file.write_text("mode: append     \n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size

    clock.now += 1
    assert config.current().mode is Mode.APPEND


def test_the_swap_of_a_mounted_config_map_counts(tmp_path, clock):
    """The kubelet swaps the link `..data` between folders. Source: k8s.io/kubernetes/pkg/volume/util, AtomicWriter."""
    for name, mode in (("..old", "placeholder"), ("..new", "append")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(f"mode: {mode}\n")
    (tmp_path / "..data").symlink_to("..old")
    (tmp_path / "config.yaml").symlink_to("..data/config.yaml")
    config = ConfigFile(tmp_path / "config.yaml", clock=clock)

    (tmp_path / "..tmp").symlink_to("..new")
    (tmp_path / "..tmp").rename(tmp_path / "..data")
    clock.now += 1

    assert config.current().mode is Mode.APPEND


def test_the_last_good_one_stays_until_the_file_is_good_again(file, clock, caplog):
    config = ConfigFile(file, clock=clock)

    file.write_text("mode: both\n")
    for _ in range(3):
        clock.now += 1
        assert config.current().mode is Mode.PLACEHOLDER
    assert isinstance(config.error, Refused)
    assert "mode: must be one of placeholder, append" in str(config.error)
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1, "an error is logged once per change of the file"
    assert errors[0].fields == {"reason": "invalid_configuration"}

    file.write_text("mode: append\n")
    clock.now += 1
    assert config.current().mode is Mode.APPEND
    assert config.error is None


def test_the_last_good_one_stays_when_the_file_vanishes(file, clock):
    config = ConfigFile(file, clock=clock)

    file.unlink()
    clock.now += 1

    assert config.current().mode is Mode.PLACEHOLDER
    assert isinstance(config.error, Failed)


def test_at_the_start_a_wrong_file_is_an_error(file):
    file.write_text("sidecar: {image: ''}\n")

    with pytest.raises(Refused, match=r"sidecar\.image"):
        ConfigFile(file)


def test_unknown_keys_are_logged_when_the_file_is_read(file, caplog):
    file.write_text("mod: append\n")

    assert ConfigFile(file).current() == Config()
    assert f"{file}: mod: is not a known field: did you mean mode?" in caplog.messages


def folder_of(tmp_path, **files):
    folder = tmp_path / "config"
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def test_the_files_of_a_folder_are_one_configuration(tmp_path):
    folder = folder_of(tmp_path, config="", openshift="kubevirtNamespace: openshift-cnv\n", append='{"mode": "append"}')
    (folder / "notes.txt").write_text("mode: none\n")

    assert load_config(folder) == Config(mode=Mode.APPEND, kubevirt_namespace="openshift-cnv")


def test_a_key_in_two_files_of_a_folder_is_refused_by_both_names(tmp_path):
    folder = folder_of(tmp_path, a="mode: append\n", b="mode: placeholder\n")

    with pytest.raises(Refused, match=r"b\.yaml: mode: stands in a\.yaml as well"):
        load_config(folder)


@pytest.mark.parametrize(("text", "message"), [("[]", "must be a mapping"), ("{", "is not YAML")], ids=["list", "yaml"])
def test_a_file_of_a_folder_that_is_wrong_is_named(tmp_path, text, message):
    with pytest.raises(Refused, match=rf"b\.yaml: {message}"):
        load_config(folder_of(tmp_path, a="mode: append\n", b=text))


def test_a_file_that_comes_into_the_folder_and_one_that_goes_count(tmp_path, clock):
    config = ConfigFile(folder_of(tmp_path, config="mode: placeholder\n"), clock=clock)
    more = tmp_path / "config" / "more.yaml"

    more.write_text("kubevirtNamespace: openshift-cnv\n")
    clock.now += 1
    assert config.current().kubevirt_namespace == "openshift-cnv"

    more.unlink()
    clock.now += 1
    assert config.current().kubevirt_namespace == "kubevirt"


def test_the_swap_of_a_mounted_folder_counts(tmp_path, clock):
    mount = tmp_path / "mount"
    for name, mode in (("..old", "placeholder"), ("..new", "append")):
        (mount / name).mkdir(parents=True)
        (mount / name / "config.yaml").write_text(f"mode: {mode}\n")
    (mount / "..data").symlink_to("..old")
    (mount / "config.yaml").symlink_to("..data/config.yaml")
    config = ConfigFile(mount, clock=clock)

    (mount / "..tmp").symlink_to("..new")
    (mount / "..tmp").rename(mount / "..data")
    clock.now += 1

    assert config.current().mode is Mode.APPEND
