"""The release before, and what a user of the present manifests changes so that it runs with them.

There are no releases yet. A commit from before there was a Deployment stands for one. What its image is built from is
kept here as an archive, since a clone may have no history and no image of it was ever published. The first release will
take its place.
"""

import json
import tarfile
import tempfile
from pathlib import Path

from cluster import images
from cluster.api import Object
from cluster.cache import key_of

COMMIT = "365d8bb"
IMAGE = f"registry.example/dravirt:{COMMIT}"
"""One image for webhook and sidecar: it had no two."""
SOURCES = Path(__file__).with_name("previous.tar.xz")
"""`git archive 365d8bb Containerfile pyproject.toml README.md LICENSE dra webhook hooksidecar certs cli | xz -9e`."""
_ARGUMENTS = ["webhook", "--config=/etc/dravirt/config.yaml", "--tls-self-managed"]
_PROBES = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}


def image() -> Path:
    """Return the archive of its image, built by its own Containerfile. Raises Missing."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(SOURCES) as archive:
            archive.extractall(folder, filter="data")
        return images.image_of(Path(folder), IMAGE, f"{COMMIT}-{key_of([SOURCES])}")


def patches() -> list[Object]:
    """Return the patches for a server that reads one file, and answers probes beside the admissions."""
    container = "/spec/template/spec/containers/0"
    operations: list[Object] = [
        {
            "op": "replace",
            "path": f"{container}/{name}/httpGet",
            "value": {"scheme": "HTTPS", "port": "https", "path": path},
        }
        for name, path in _PROBES.items()
    ]
    operations.append({"op": "replace", "path": f"{container}/args", "value": _ARGUMENTS})
    return [{"target": {"kind": "Deployment"}, "patch": json.dumps(operations)}]
