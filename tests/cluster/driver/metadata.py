"""KEP-5304 metadata: where a container finds the file of a request, and what is in it.

Source: KEP-5304; k8s.io/dynamic-resource-allocation/api/metadata.
"""

import json
from collections.abc import Sequence
from typing import Any

from cluster.driver.prepared import Claim
from cluster.driver.settings import Settings

FOLDER = "/var/run/kubernetes.io/dra-device-attributes"
_POD_CLAIM = "resource.kubernetes.io/pod-claim-name"


def container_path(claim: Claim, request: str, driver: str) -> str:
    """Return the path of a request's metadata file in the containers that use the request."""
    pod_claim = claim.annotations.get(_POD_CLAIM)
    folder = f"resourceclaimtemplates/{pod_claim}" if pod_claim else f"resourceclaims/{claim.name}"
    return f"{FOLDER}/{folder}/{request}/{driver}-metadata.json"


def content(claim: Claim, results: Sequence[dict[str, Any]], settings: Settings) -> str:
    """Return the file of one request, given its results: the same object once per version."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for each in results:
        by_name.setdefault(each["request"], []).append(_device(each, settings))
    metadata = {"name": claim.name, "namespace": claim.namespace, "uid": claim.uid, "generation": 1}
    requests = [{"name": name, "devices": devices} for name, devices in by_name.items()]
    body = {"metadata": metadata, "podClaimName": claim.annotations.get(_POD_CLAIM), "requests": requests}
    whole = "".join(
        json.dumps({"kind": "DeviceMetadata", "apiVersion": f"metadata.resource.k8s.io/{version}", **body}, indent=2)
        + "\n"
        for version in settings.metadata_of(results[0]["device"])
    )
    return {"whole": whole, "empty": "", "cut": whole[: len(whole) // 3]}[settings.written_of(results[0]["device"])]


def _device(result: dict[str, Any], settings: Settings) -> dict[str, Any]:
    attributes = settings.attributes_of(result["pool"], result["device"])
    return {
        "driver": result["driver"],
        "pool": result["pool"],
        "name": result["device"],
        "attributes": dict(attributes),
    }
