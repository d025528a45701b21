"""Virtual machines, claims and templates for the suites: raw objects, as small as KubeVirt takes them."""

import json
from typing import Any

from cluster.api import Object

ANNOTATION = "dravirt.io/devices"
CLAIMS = "resource.k8s.io/v1"


def devices(*entries: dict[str, Any]) -> str:
    """Return the value of the annotation for these entries."""
    return json.dumps(list(entries))


def vm(
    namespace: str,
    name: str = "vm1",
    *,
    asks: str | None = None,
    asks_on_vm: str | None = None,
    running: bool = True,
    domain: dict[str, Any] | None = None,
    **spec: Any,
) -> Object:
    """Return a VM; `asks` is the annotation of its template, `asks_on_vm` that of the VM, `domain` adds to it."""
    metadata: Object = {"name": name, "namespace": namespace}
    if asks_on_vm is not None:
        metadata["annotations"] = {ANNOTATION: asks_on_vm}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": metadata,
        "spec": {
            "runStrategy": "Always" if running else "Halted",
            **spec,
            "template": {"metadata": _template_metadata(asks), "spec": vmi_spec(domain)},
        },
    }


def vmi(namespace: str, name: str = "vm1", *, asks: str | None = None, domain: dict[str, Any] | None = None) -> Object:
    """Return a VMI without a VM."""
    metadata = {**_template_metadata(asks), "name": name, "namespace": namespace}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": metadata,
        "spec": vmi_spec(domain),
    }


def vmi_spec(domain: dict[str, Any] | None = None) -> Object:
    """Return the spec of a VMI that needs no image; `domain` replaces fields of its domain."""
    whole = {"devices": {}, "memory": {"guest": "64Mi"}, "resources": {"requests": {"cpu": "10m"}}, **(domain or {})}
    return {"domain": whole, "terminationGracePeriodSeconds": 0}


def template(namespace: str, name: str, *requests: Object, **devices_spec: Any) -> Object:
    """Return a ResourceClaimTemplate of these requests."""
    spec = {"spec": {"devices": {"requests": list(requests), **devices_spec}}}
    return _named("ResourceClaimTemplate", namespace, name, spec)


def claim(namespace: str, name: str, *requests: Object) -> Object:
    """Return a ResourceClaim of these requests."""
    return _named("ResourceClaim", namespace, name, {"devices": {"requests": list(requests)}})


def request(device_class: str, name: str = "gpu", count: int = 1) -> Object:
    """Return a request of exactly `count` devices."""
    return {"name": name, "exactly": {"deviceClassName": device_class, "count": count}}


def request_of(device: str, driver: str, device_class: str) -> Object:
    """Return a request of one device by its name."""
    selector = {"cel": {"expression": f'device.attributes["{driver}"].name == "{device}"'}}
    return {"name": "gpu", "exactly": {"deviceClassName": device_class, "selectors": [selector]}}


def first_available(name: str, *device_classes: str) -> Object:
    """Return a request of one device of the first class that has one; sub-requests are named after the classes."""
    return {"name": name, "firstAvailable": [{"name": each, "deviceClassName": each} for each in device_classes]}


def _named(kind: str, namespace: str, name: str, spec: Object) -> Object:
    return {"apiVersion": CLAIMS, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def _template_metadata(asks: str | None) -> Object:
    return {} if asks is None else {"annotations": {ANNOTATION: asks}}
