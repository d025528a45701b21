"""The webhook's configuration file, found through its Deployment, and changed by one key at a time."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from cli.doctor import remedies
from cli.doctor.codes import Code
from cli.doctor.facts import RawObject, Settings
from cli.doctor.finding import Finding
from dra.errors import Refused
from webhook.config import Config
from webhook.configfile import read_config
from webhook.configtext import together
from webhook.raw import mapping, mappings, name_of
from webhook.yamltext import load

_SIDECAR_IMAGE = "dravirt.io/sidecar-image"
"""The annotation of the Deployment's pods by which the webhook is given the sidecar's image."""
_MAIN, _SUFFIX = "config.yaml", ".yaml"
"""The file of a folder of configuration that is the administrator's own, and what all of them end in."""


def container(deployment: RawObject) -> RawObject:
    """Return the container that serves the webhooks: the first."""
    containers = mappings(deployment, "spec", "template", "spec", "containers")
    return containers[0] if containers else {}


def option(served: RawObject, name: str) -> str:
    """Return the value of an option on a container's command line, "" where it is not there."""
    words = [str(word) for key in ("command", "args") for word in served.get(key) or []]
    for index, word in enumerate(words):
        if word == name:
            following = words[index + 1 : index + 2]
            return following[0] if following and not following[0].startswith("--") else "true"
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return ""


@dataclass(frozen=True, slots=True)
class Source:
    """What `--config` of the webhook names: a key of a ConfigMap, or all of it where `key` is ""."""

    config_map: str
    key: str


def source(deployment: RawObject) -> Source | None:
    """Return where the configuration comes from, None where that is no ConfigMap."""
    served = container(deployment)
    path = PurePosixPath(option(served, "--config"))
    for mount in mappings(served, "volumeMounts"):
        mounted = PurePosixPath(str(mount.get("mountPath")))
        if mounted in {path, path.parent}:
            for volume in mappings(deployment, "spec", "template", "spec", "volumes"):
                if name_of(volume) == name_of(mount) and (name := name_of(mapping(volume, "configMap"))):
                    return Source(name, "" if mounted == path else path.name)
    return None


def read_settings(item: RawObject, key: str, deployment: RawObject) -> Settings:
    """Return the settings in a ConfigMap, as the webhook reads them."""
    data = {name: str(text) for name, text in sorted(mapping(item, "data").items()) if name.endswith(_SUFFIX)}
    files = {key: str(mapping(item, "data").get(key) or "")} if key else {_MAIN: "", **data}
    config, fault = Config(), ""
    try:
        config, _ = read_config(json.dumps(together(files)), path=key or _MAIN)
    except Refused as error:
        fault = error.message
    given = mapping(deployment, "spec", "template", "metadata", "annotations").get(_SIDECAR_IMAGE)
    named = not fault and "image" in mapping(together(files), "sidecar")
    image = config.sidecar.image if named or not given else str(given)
    metadata = mapping(item, "metadata")
    return Settings(str(metadata.get("namespace")), name_of(metadata), files, config, image, fault)


def check_settings(settings: Settings | None) -> Iterator[Finding]:
    """Find a configuration file that the webhook refuses."""
    if settings and settings.fault:
        remedy = remedies.kubectl("edit", "configmap", settings.name, namespace=settings.namespace)
        yield Finding(Code.CONFIGURATION, settings.subject, settings.fault, remedy)


def value_of(settings: Settings, key: str) -> RawObject:
    """Return the mapping under a top-level key, empty where there is none."""
    return mapping(together(settings.files), key)


def change(settings: Settings, key: str, value: Any) -> str:
    """Return the command that sets a top-level key, in the file that has it."""
    file = next((file for file, text in settings.files.items() if key in _content(text)), next(iter(settings.files)))
    changes = {"data": {file: _with_value(settings.files[file], key, value)}}
    return remedies.merge("configmap", settings.name, changes, settings.namespace)


def _content(text: str) -> RawObject:
    return mapping({"": load(text)}, "")


def _with_value(text: str, key: str, value: Any) -> str:
    """Return the file with another value of a key; the rest stays as it is where that is on one line, or new."""
    written, wanted = f"{key}: {json.dumps(value)}", {**_content(text), key: value}
    line = re.compile(rf"^{re.escape(key)}:(?:[ \t]+[^\n]*)?$", re.MULTILINE)
    for changed in (line.sub(lambda _: written, text, count=1), f"{text.rstrip()}\n{written}\n".lstrip()):
        if _reads_as(changed, wanted):
            return changed
    return json.dumps(wanted, indent=2) + "\n"


def _reads_as(text: str, value: object) -> bool:
    try:
        return load(text) == value
    except ValueError:
        return False
