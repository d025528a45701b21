"""Take one case the whole way from annotation to host device, with dravirt's real servers on loopback.

CASE is a folder such as those under examples/. The webhook runs as a process, over HTTPS with a throw-away authority,
and gets AdmissionReviews as the API server posts them; the hook sidecar runs as a process on the case's node and is
called over gRPC as virt-launcher calls it, twice. Nothing outside the case is touched and no cluster is needed. Where
devices cannot be found, the sidecar tries for 30 s before it says why, as in a cluster.

examples:
  dravirt simulate examples/mig-backed-mdev
  dravirt simulate examples/mig-backed-mdev --out /tmp/mig    # keep every object, patch, review, domain and log
"""

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from cli.account import Account
from cli.admission import admit_all
from cli.artefacts import Artefacts
from cli.attachment import attach
from cli.case import read_case


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("case", metavar="CASE", type=Path, help="the folder of a case")
    parser.add_argument("--out", metavar="DIR", type=Path, help="write every artefact into this folder")


def run(args: argparse.Namespace) -> int:
    """Simulate the case and return the exit code."""
    case, account = read_case(args.case), Account()
    with ExitStack() as stack:
        artefacts = Artefacts(args.out or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dravirt-"))))
        admitted = admit_all(case, account, artefacts)
        attach(case, admitted, account, artefacts)
    if args.out:
        print(f"\nEvery object, patch, review, domain and log is in {args.out}.", file=sys.stderr)
    else:
        print(
            f"\nTo keep every object, patch, review, domain and log: dravirt simulate {args.case} --out DIR",
            file=sys.stderr,
        )
    return 0
