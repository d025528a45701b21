"""The VMs that ask for devices: by the annotation on them, or on the instancetype or preference they name."""

from collections.abc import Iterator
from dataclasses import dataclass

from cli.doctor import remedies
from cli.doctor.facts import Objects, RawObject
from dra.contract import DEVICES_ANNOTATION, PLACEHOLDER_RESOURCE
from webhook.raw import annotations, mapping, mappings

_TEMPLATE = ("spec", "template")
_REFERENCES = {"instancetype": "VirtualMachineClusterInstancetype", "preference": "VirtualMachineClusterPreference"}
"""What a VM names by, and the kind that is meant where it names none. Source: KubeVirt api/core/v1/types.go."""


@dataclass(frozen=True, slots=True)
class Asker:
    """A VM or a VMI that asks for devices."""

    item: RawObject

    @property
    def kind(self) -> str:
        """VirtualMachine or VirtualMachineInstance."""
        return str(self.item.get("kind"))

    @property
    def namespace(self) -> str:
        """Where it is."""
        return str(mapping(self.item, "metadata").get("namespace"))

    @property
    def name(self) -> str:
        """What it is called."""
        return str(mapping(self.item, "metadata").get("name"))

    @property
    def subject(self) -> str:
        """What it is called in a finding."""
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def resource(self) -> str:
        """Its kind as kubectl takes it."""
        return "vm" if self.kind == "VirtualMachine" else "vmi"

    @property
    def spec(self) -> RawObject:
        """The spec of the VMI that it is or will be."""
        return mapping(self.item, *self._root, "spec")

    @property
    def placeholders(self) -> list[int]:
        """The places among its GPUs of placeholders that its owner wrote."""
        gpus = mappings(self.spec, "domain", "devices", "gpus")
        return [index for index, each in enumerate(gpus) if each.get("deviceName") == PLACEHOLDER_RESOURCE]

    def withdrawal(self) -> list[remedies.Operation]:
        """Return the JSON Patch after which a VM asks for nothing."""
        gpus = [(*_TEMPLATE, "spec", "domain", "devices", "gpus", index) for index in reversed(self.placeholders)]
        asked = [
            (*path, "metadata", "annotations", DEVICES_ANNOTATION)
            for path in ((), _TEMPLATE)
            if DEVICES_ANNOTATION in annotations(mapping(self.item, *path))
        ]
        return [{"op": "remove", "path": remedies.pointer(*path)} for path in (*gpus, *asked)]

    @property
    def _root(self) -> tuple[str, ...]:
        return _TEMPLATE if self.kind == "VirtualMachine" else ()


def asking(machines: Objects, instances: Objects, patterns: Objects) -> Iterator[Asker]:
    """Yield the VMs that ask, and the VMIs that do without such a VM."""
    known = {_key(each) for each in patterns if DEVICES_ANNOTATION in mapping(each, "spec", "annotations")}
    owners = set()
    for each in machines:
        if _asks(each) or _asks(mapping(each, *_TEMPLATE)) or not known.isdisjoint(_named(each)):
            owners.add(mapping(each, "metadata").get("uid"))
            yield Asker(each)
    for each in instances:
        references = mappings(each, "metadata", "ownerReferences")
        if _asks(each) and owners.isdisjoint(reference.get("uid") for reference in references):
            yield Asker(each)


def _asks(item: RawObject) -> bool:
    return DEVICES_ANNOTATION in annotations(item)


def _named(vm: RawObject) -> Iterator[tuple[str, str, str]]:
    """Yield what a VM names, as `_key` gives it. Kinds may be written in any case."""
    namespace = str(mapping(vm, "metadata").get("namespace"))
    for field, default in _REFERENCES.items():
        reference = mapping(vm, "spec", field)
        kind = str(reference.get("kind") or default).lower()
        yield kind, "" if "cluster" in kind else namespace, str(reference.get("name"))


def _key(pattern: RawObject) -> tuple[str, str, str]:
    metadata = mapping(pattern, "metadata")
    return str(pattern.get("kind")).lower(), str(metadata.get("namespace") or ""), str(metadata.get("name"))
