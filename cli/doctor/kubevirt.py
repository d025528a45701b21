"""Where KubeVirt's configuration is written: in the KubeVirt object, or in the HyperConverged that owns it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cli.doctor import remedies
from cli.doctor.facts import RawObject
from cli.doctor.finding import Fix
from webhook.raw import labels, mapping, mappings

HCO_GROUP = "hco.kubevirt.io"
_HCO_NAME = "kubevirt-hyperconverged"
"""The one HyperConverged that its operator heeds. Source: hyperconverged-cluster-operator, pkg/util/consts.go."""
_HCO_LABEL = ("app.kubernetes.io/managed-by", "hco-operator")
_ON_FROM = {"GPUsWithDRA": (1, 9), "HostDevicesWithDRA": (1, 9)}
"""The KubeVirt in which a gate is on by default. Source: pkg/virt-config/featuregate/active.go."""


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
    key, operator = _HCO_LABEL
    owners = [each.get("kind") for each in mappings(metadata, "ownerReferences")]
    if "HyperConverged" in owners or labels(kubevirt).get(key) == operator:
        return Owner(None, f"hyperconvergeds.{HCO_GROUP}", namespace, _HCO_NAME, ("spec",), "pciDeviceSelector")
    return Owner(kubevirt, "kubevirt", namespace, name, ("spec", "configuration"), "pciVendorSelector")


def configuration(kubevirt: RawObject | None) -> RawObject:
    """Return KubeVirt's configuration as it is in force."""
    return mapping(kubevirt or {}, "spec", "configuration")


def feature_gates(kubevirt: RawObject) -> tuple[str, ...]:
    """Return the feature gates that are on, in order: switched on by name, or by default and not switched off."""
    settings = mapping(configuration(kubevirt), "developerConfiguration")
    off = _texts(settings, "disabledFeatureGates")
    number = parse(kubevirt_version(kubevirt)) or (0, 0)
    usual = {gate for gate, version in _ON_FROM.items() if number >= version}
    return tuple(sorted((_texts(settings, "featureGates") | usual) - off))


def _texts(item: RawObject, field: str) -> set[str]:
    value = item.get(field)
    return set(map(str, value)) if isinstance(value, list) else set()


def kubevirt_version(kubevirt: RawObject) -> str:
    """Return the version of KubeVirt that runs, "" while none does."""
    status = mapping(kubevirt, "status")
    return str(status.get("observedKubeVirtVersion") or status.get("targetKubeVirtVersion") or "")


def parse(version: str) -> tuple[int, int] | None:
    """Return major and minor number of a version such as v1.36.3, None where it is none."""
    match = re.match(r"v?(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else None


def subject(kubevirt: RawObject) -> str:
    """Return what the KubeVirt object is called in a finding."""
    metadata = mapping(kubevirt, "metadata")
    return f"KubeVirt {metadata.get('namespace')}/{metadata.get('name')}"
