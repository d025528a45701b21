"""The release before, and what a user of the present manifests changes so that it runs with them."""

import json

from cluster.api import Object

ARGUMENTS = [
    "webhook",
    "--config=/etc/dravirt/config.yaml",
    "--tls-self-managed",
    "--secret",
    "dravirt-webhook-tls",
]
PROBES = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}


def patches() -> list[Object]:
    """Return the patches for a server without a port for its health: it answers probes beside the admissions."""
    container = "/spec/template/spec/containers/0"
    probe = {"scheme": "HTTPS", "port": "https"}
    operations = [
        {"op": "replace", "path": f"{container}/{name}/httpGet", "value": {**probe, "path": path}}
        for name, path in PROBES.items()
    ]
    operations.append({"op": "replace", "path": f"{container}/args", "value": ARGUMENTS})
    return [{"target": {"kind": "Deployment"}, "patch": json.dumps(operations)}]
