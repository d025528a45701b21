"""The examples of the project, each a folder that `dravirt simulate` runs."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from webhook.annotation import FIELD, Asked, annotation_of, read_asked

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(file.parent for file in (ROOT / "examples").glob("*/virtualmachine.yaml"))
METADATA = "var/run/kubernetes.io/dra-device-attributes"

_FENCED = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Allocated:
    """One device of a claim: what the scheduler chose, what the driver published, and what it wrote for the pod."""

    claim: dict[str, Any]
    result: dict[str, Any]
    published: dict[str, Any]
    metadata: dict[str, str | int | bool]
    """The attributes in the metadata file, by name."""

    @property
    def attributes(self) -> dict[str, str | int | bool]:
        """The attributes in the slice, by name."""
        return plain(self.published["attributes"])


@dataclass(frozen=True, slots=True)
class Example:
    """The files of one example."""

    folder: Path

    @property
    def node(self) -> Path:
        """The root of the node's files."""
        return self.folder / "node"

    def objects(self, name: str) -> list[dict[str, Any]]:
        """Return the Kubernetes objects in a file."""
        return list(yaml.safe_load_all((self.folder / f"{name}.yaml").read_text()))

    def vm(self) -> dict[str, Any]:
        """Return the VM."""
        return self.objects("virtualmachine")[0]

    def pod(self) -> dict[str, Any]:
        """Return the launcher pod before admission."""
        return self.objects("launcher-pod")[0]

    def claims(self) -> dict[str, dict[str, Any]]:
        """Return the claims by pod claim."""
        name = "resource.kubernetes.io/pod-claim-name"
        return {claim["metadata"]["annotations"][name]: claim for claim in self.objects("resourceclaims")}

    def domain(self) -> bytes:
        """Return the domain before any hook."""
        return (self.folder / "domain.xml").read_bytes()

    def asked(self) -> Asked:
        """Return what the VM's annotation asks for."""
        return read_asked(annotation_of(self.vm()["spec"]["template"]) or "", FIELD)

    def allocated(self) -> Iterator[Allocated]:
        """Yield every device that was allocated. Raises KeyError where slice or metadata do not have it."""
        published = {
            (slice_["spec"]["driver"], slice_["spec"]["pool"]["name"], device["name"]): device
            for slice_ in self.objects("resourceslices")
            for device in slice_["spec"]["devices"]
        }
        for claim in self.claims().values():
            for result in claim["status"]["allocation"]["devices"]["results"]:
                device = published[result["driver"], result["pool"], result["device"]]
                yield Allocated(claim, result, device, self._metadata(claim, result))

    def metadata_file(self, claim: dict[str, Any], result: dict[str, Any]) -> Path:
        """Return where the driver writes about one result of a claim that was made from a template."""
        pod_claim = claim["metadata"]["annotations"]["resource.kubernetes.io/pod-claim-name"]
        folder = self.node / METADATA / "resourceclaimtemplates" / pod_claim / result["request"]
        return folder / f"{result['driver']}-metadata.json"

    def _metadata(self, claim: dict[str, Any], result: dict[str, Any]) -> dict[str, str | int | bool]:
        newest = json_stream(self.metadata_file(claim, result).read_text())[0]
        devices = {device["name"]: device for request in newest["requests"] for device in request["devices"]}
        return plain(devices[result["device"]]["attributes"])


def json_stream(text: str) -> list[dict[str, Any]]:
    """Return the objects that follow each other in `text`."""
    decoder, found = json.JSONDecoder(), []
    while text := text.lstrip():
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:]
    return found


def plain(attributes: dict[str, dict[str, Any]]) -> dict[str, str | int | bool]:
    """Return attributes by name without their types."""
    return {name: next(iter(typed.values())) for name, typed in attributes.items()}


def fenced(markdown: str, language: str) -> list[str]:
    """Return the fenced blocks of one language in a Markdown text, without their indentation."""
    blocks = [match for match in _FENCED.finditer(markdown) if match["language"] == language]
    return [re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE) for match in blocks]
