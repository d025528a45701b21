r"""Show the devices that a hook sidecar would find on a node, with the source of each, as JSON.

Inside the container dravirt-hook it needs no argument. Elsewhere FILE is what the webhook put into the sidecar's
environment (DRAVIRT_INTENT of the init container dravirt-hook), and DIR is the node: a folder that holds sys/, dev/ and
the driver's metadata files below var/run/kubernetes.io/dra-device-attributes. Variables of this process count as the
container's environment.

examples, in the pod of a VM, and here with the intent that the webhook would give to a pod:
  kubectl exec POD -c dravirt-hook -- /opt/dravirt/bin/dravirt resolve
  dravirt render -o json examples/mig-backed-mdev/launcher-pod.yaml \
    | jq -r '.spec.initContainers[0].env[] | select(.name=="DRAVIRT_INTENT").value' > intent.json
  dravirt resolve --intent intent.json --root examples/mig-backed-mdev/node
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from cli.files import read_bytes
from dra.contract import INTENT_ENV, METADATA_DIR
from dra.device import Device
from hooksidecar.resolver import resolve
from hooksidecar.settings import Settings
from hooksidecar.sources import device_sources
from hooksidecar.sysfs import HostTree
from hooksidecar.verification import verify


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("--intent", metavar="FILE", help=f"the intent, in JSON, or - for stdin (default: {INTENT_ENV})")
    parser.add_argument("--root", metavar="DIR", type=_folder, help="the node's files (default: as the sidecar's)")


def run(args: argparse.Namespace) -> int:
    """Resolve the devices and return the exit code."""
    environ = dict(os.environ)
    if args.intent:
        environ[INTENT_ENV] = read_bytes(args.intent).decode(errors="replace")
    if args.root:
        root = str(args.root.absolute())
        environ |= {"DRAVIRT_ROOT": root, "DRAVIRT_METADATA_DIR": root.rstrip("/") + METADATA_DIR}
    devices = find_devices(environ)
    json.dump([device.to_json() for device in devices], sys.stdout, indent=2)
    print()
    return 0


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"must be a folder, got {text}")
    return path


def find_devices(environ: Mapping[str, str]) -> tuple[Device, ...]:
    """Return the devices that a sidecar with the environment `environ` finds, checked on its node.

    Raises Refused where they cannot be attached, Failed where a retry may find them.
    """
    settings = Settings.of(environ)
    sources = device_sources(settings.intent, metadata_dir=settings.metadata_dir, environ=environ)
    return verify(resolve(settings.intent, sources), HostTree(settings.root))
