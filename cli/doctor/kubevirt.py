"""Where KubeVirt's configuration is written: in the KubeVirt object, or in the HyperConverged that owns it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cli.doctor import remedies
from cli.doctor.facts import RawObject
from cli.doctor.finding import Fix
from webhook.raw import mapping, mappings

HCO_GROUP = "hco.kubevirt.io"


@dataclass(frozen=True, slots=True)
class Owner:
    """The object to change for KubeVirt's configuration to change, None where it is known by name only."""

    item: RawObject | None
    resource: str
    namespace: str
    name: str
    root: tuple[str, ...]
    """The path of the configuration in it."""
    pci_selector: str
    """What the selector of a permitted PCI device is called."""

    @property
    def is_kubevirt(self) -> bool:
        """True where nothing else would write the object anew."""
        return self.resource == "kubevirt"

    def put(self, path: Sequence[str], value: Any, *, append: bool = False) -> list[remedies.Operation]:
        """Return the JSON Patch that puts `value` at `path` of the configuration."""
        return remedies.put(self.item or {}, (*self.root, *path), value, append=append)

    def command(self, operations: Sequence[remedies.Operation]) -> str:
        """Return the command that makes the change, an editor where the object could not be read."""
        if self.item is None:
            return remedies.kubectl("edit", self.resource, self.name, namespace=self.namespace)
        return remedies.patch(self.resource, self.name, operations, self.namespace)

    def fix(self, operations: Sequence[remedies.Operation]) -> Fix | None:
        """Return the change as one that can be made at once; never in a HyperConverged, which has an operator."""
        if self.item is None or not self.is_kubevirt:
            return None
        path = f"/apis/kubevirt.io/v1/namespaces/{self.namespace}/kubevirts/{self.name}"
        return Fix(path, str(mapping(self.item, "metadata").get("resourceVersion")), operations)


def owner_of(kubevirt: RawObject, hyperconverged: RawObject | None) -> Owner:
    """Return who owns KubeVirt's configuration. HyperConverged writes the KubeVirt object anew from its own."""
    metadata = mapping(kubevirt, "metadata")
    namespace, name = str(metadata.get("namespace")), str(metadata.get("name"))
    if hyperconverged is not None:
        version = str(hyperconverged.get("apiVersion")).rpartition("/")[2]
        there = mapping(hyperconverged, "metadata")
        return Owner(
            hyperconverged,
            f"hyperconvergeds.{version}.{HCO_GROUP}",
            str(there.get("namespace")),
            str(there.get("name")),
            ("spec",) if version == "v1beta1" else ("spec", "virtualization"),
            "pciDeviceSelector",
        )
    for reference in mappings(metadata, "ownerReferences"):
        if reference.get("kind") == "HyperConverged":
            resource = f"hyperconvergeds.{HCO_GROUP}"
            return Owner(None, resource, namespace, str(reference.get("name")), ("spec",), "pciDeviceSelector")
    return Owner(kubevirt, "kubevirt", namespace, name, ("spec", "configuration"), "pciVendorSelector")


def configuration(kubevirt: RawObject | None) -> RawObject:
    """Return KubeVirt's configuration as it is in force."""
    return mapping(kubevirt or {}, "spec", "configuration")


def feature_gates(kubevirt: RawObject) -> tuple[str, ...]:
    """Return the feature gates that are switched on by name, in order."""
    gates = mapping(configuration(kubevirt), "developerConfiguration").get("featureGates")
    return tuple(sorted(map(str, gates))) if isinstance(gates, list) else ()


def subject(kubevirt: RawObject) -> str:
    """Return what the KubeVirt object is called in a finding."""
    metadata = mapping(kubevirt, "metadata")
    return f"KubeVirt {metadata.get('namespace')}/{metadata.get('name')}"
