"""Intents, and the metadata files of DRA drivers, as a sidecar finds them."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dra.intent import Intent, read_intent

DRIVER = "vgpu.example.com"
STANDARD_PCI = "resource.kubernetes.io/pciBusID"


def entry(name: str = "gpu0", *, request: str | None = None, claim: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a device of an intent: from the template `vgpu`, or from the existing claim `claim`."""
    template = None if claim else "vgpu"
    return {
        "name": name,
        "podClaim": f"dravirt-{name}",
        "template": template,
        "claim": claim,
        "request": request,
    } | more


def intent_json(*entries: Mapping[str, Any], **more: Any) -> str:
    """Return an intent as the webhook writes it."""
    return json.dumps({"version": 1, "mode": "placeholder", "devices": list(entries), "service": None} | more)


def intent(*entries: Mapping[str, Any], **more: Any) -> Intent:
    """Return an intent."""
    return read_intent(intent_json(*entries, **more), path="intent")


def allocated(name: str, *, driver: str = DRIVER, pool: str = "node-7", **attributes: str) -> dict[str, Any]:
    """Return a device as a metadata file lists it; `pci` is short for the standard attribute."""
    named = {STANDARD_PCI if key == "pci" else key: {"string": value} for key, value in attributes.items()}
    return {"driver": driver, "pool": pool, "name": name, "attributes": named}


def metadata_json(requests: Mapping[str, Iterable[Mapping[str, Any]]], *, version: str = "v1beta1") -> str:
    """Return one object of a metadata stream: `{request: devices}`."""
    value = {
        "apiVersion": f"metadata.resource.k8s.io/{version}",
        "kind": "DeviceMetadata",
        "metadata": {"name": "vm1-vgpu-x7k2p", "namespace": "demo", "uid": "0c9f", "generation": 1},
        "requests": [{"name": name, "devices": list(devices)} for name, devices in requests.items()],
    }
    return json.dumps(value, indent=1)


def template_folder(metadata_dir: Path, request: str, *, pod_claim: str = "dravirt-gpu0") -> Path:
    """Return the folder of a request of a claim made from a template."""
    return metadata_dir / "resourceclaimtemplates" / pod_claim / request


def claim_folder(metadata_dir: Path, request: str, *, claim: str) -> Path:
    """Return the folder of a request of an existing claim."""
    return metadata_dir / "resourceclaims" / claim / request


def write_metadata(folder: Path, *devices: Mapping[str, Any], request: str | None = None, driver: str = DRIVER) -> Path:
    """Write a driver's metadata file of one request, which is named as the folder where `request` is None.

    Written beside and moved, as drivers do: who looks meanwhile finds none, or all of it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{driver}-metadata.json"
    versions = ("v1beta1", "v1alpha1")
    beside = file.with_name(f"{file.name}.tmp")
    beside.write_text("\n".join(metadata_json({request or folder.name: devices}, version=each) for each in versions))
    return beside.replace(file)
