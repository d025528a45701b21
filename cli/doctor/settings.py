"""The webhook's configuration file, found through its Deployment, and changed by one key at a time."""

import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from cli.doctor import remedies
from cli.doctor.codes import Code
from cli.doctor.facts import RawObject, Settings
from cli.doctor.finding import Finding
from dra.errors import Refused
from webhook.config import Config
from webhook.configfile import read_config
from webhook.raw import mapping, mappings, name_of
from webhook.yamltext import load

_SIDECAR_IMAGE = "dravirt.io/sidecar-image"
"""The annotation of the Deployment's pods by which the webhook is given the sidecar's image."""
_MAIN = "config.yaml"
"""The file of a folder of configuration that is the administrator's own."""


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


def config_map(deployment: RawObject) -> tuple[str, str] | None:
    """Return the ConfigMap and the key that the webhook's `--config` is, None where no ConfigMap is mounted there."""
    served = container(deployment)
    path = PurePosixPath(option(served, "--config"))
    for mount in mappings(served, "volumeMounts"):
        mounted = str(mount.get("mountPath")).rstrip("/")
        if mounted in {str(path), str(path.parent)}:
            key = _MAIN if mounted == str(path) else path.name
            for volume in mappings(deployment, "spec", "template", "spec", "volumes"):
                if name_of(volume) == name_of(mount) and (name := name_of(mapping(volume, "configMap"))):
                    return name, key
    return None


def read_settings(item: RawObject, key: str, deployment: RawObject) -> Settings:
    """Return the settings in a ConfigMap, as the webhook reads them from the folder of the file `key`."""
    metadata, data = mapping(item, "metadata"), mapping(item, "data")
    fault, config, files = "", Config(), {}
    try:
        files = {name: content(text) for name, text in sorted(data.items())}
        together = {name: value for each in files.values() for name, value in each.items()}
        config, _ = read_config(json.dumps(together), path=key)
    except ValueError as error:
        fault = f"it is not YAML: {error}"
    except Refused as error:
        fault = error.message
    if key not in data:
        fault = f"it has no key {key}"
    given = mapping(deployment, "spec", "template", "metadata", "annotations").get(_SIDECAR_IMAGE)
    named = any("image" in mapping(each, "sidecar") for each in files.values())
    image = config.sidecar.image if named or not given else str(given)
    text = str(data.get(key) or "")
    return Settings(str(metadata.get("namespace")), str(metadata.get("name")), key, text, config, image, fault)


def check_settings(settings: Settings | None) -> Iterator[Finding]:
    """Find a configuration file that the webhook refuses."""
    if settings and settings.fault:
        remedy = remedies.kubectl("edit", "configmap", settings.name, namespace=settings.namespace)
        yield Finding(Code.CONFIGURATION, f"ConfigMap {settings.namespace}/{settings.name}", settings.fault, remedy)


def content(text: str) -> RawObject:
    """Return what stands in the file, nothing where it is no mapping."""
    value = load(text)
    return value if isinstance(value, dict) else {}


def with_value(text: str, key: str, value: Any) -> str:
    """Return the file with another value of a top-level key; the rest stays where that is on one line, or new."""
    written = f"{key}: {json.dumps(value)}"
    line = re.compile(rf"^{re.escape(key)}:(?:[ \t]+[^\n]*)?$(?!\n[ \t-])", re.MULTILINE)
    known = content(text)
    if line.search(text):
        return line.sub(lambda _: written, text, count=1)
    if key in known or text.lstrip().startswith("{"):
        return json.dumps({**known, key: value}, indent=2) + "\n"
    return f"{text.rstrip()}\n{written}\n".lstrip()
