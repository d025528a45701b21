"""Edit a libvirt domain as the hook sidecar does, without a node.

Reads the domain from DOMAIN.xml or stdin and writes the edited one to stdout. The devices are a JSON list as `dravirt
resolve` prints it; each has a `name` and a `mdevUUID` or `pciAddress`, and may have `model`, `display` and `ramfb`.

examples:
  kubectl get vmi VM -o json > vmi.json
  kubectl exec POD -c compute -- virsh dumpxml --inactive NAMESPACE_VM > domain.xml
  echo '[{"name": "gpu0", "mdevUUID": "b0a6f6ec-5f0f-4b8e-9c6e-0d3b6f0a7a11"}]' > devices.json
  dravirt hook --vmi vmi.json --devices devices.json domain.xml
  dravirt hook --vmi vmi.json --devices devices.json --append < domain.xml    # in an installation in append mode
"""

import argparse
import sys

from cli.files import read_bytes, read_json
from dra.device import read_devices
from dra.errors import Refused
from dra.intent import Mode
from dra.reasons import Reason
from hooksidecar.domain import edit_domain

_VMI = "VirtualMachineInstance"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("domain", metavar="DOMAIN.xml", nargs="?", default="-", help="the domain (default: stdin)")
    parser.add_argument("--vmi", metavar="FILE", required=True, help="the VMI, in JSON")
    parser.add_argument("--devices", metavar="FILE", required=True, help="the devices to attach, in JSON")
    parser.add_argument("--append", action="store_true", help="append host devices instead of rewriting placeholders")


def run(args: argparse.Namespace) -> int:
    """Edit the domain and return the exit code."""
    vmi = read_json(args.vmi)
    # (virt-launcher hands its hooks a VMI that may lack the kind)
    if not isinstance(vmi, dict) or vmi.get("kind", _VMI) != _VMI:
        raise Refused(Reason.INVALID_VMI, f"must be a {_VMI}", path=args.vmi)
    devices = read_devices(read_json(args.devices), path=args.devices)
    mode = Mode.APPEND if args.append else Mode.PLACEHOLDER
    sys.stdout.buffer.write(edit_domain(read_bytes(args.domain), devices, mode=mode, vmi=vmi) + b"\n")
    return 0
