"""Say what of a cluster keeps VMs from their devices, why it matters, and the command that mends it.

examples:
  dravirt doctor                          # all that can be seen with the rights of this kubeconfig
  dravirt doctor -n team-a                # the VMs of one namespace, with the rights there
  dravirt doctor -o json | jq -r '.findings[] | select(.severity == "error") | .remedy'
  dravirt doctor --fix                    # do what is safe: permit the placeholder in a KubeVirt of your own
  dravirt doctor --before-uninstall       # the VMs that would then start without devices, or never

It changes nothing unless --fix is given: what it tries are dry runs. docs/doctor.md has a section for each finding.

Exit codes: 0 no error was found, 1 one was, 2 wrong usage, 3 the API server does not answer.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cli.doctor.checks import BEFORE_UNINSTALL, CHECKS, Diagnosis, diagnose
from cli.doctor.codes import Severity
from cli.doctor.gather import Scope, gather
from cli.doctor.report import to_json, to_text
from dra.errors import Failed, Refused

if TYPE_CHECKING:
    from cli.doctor.server import Server


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("-n", "--namespace", help="look at the VMs of this namespace only, and try objects in it")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="(default: %(default)s)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--fix", action="store_true", help="do what is safe, say what was changed, and look again")
    what.add_argument(
        "--before-uninstall", action="store_true", help="list the VMs that need dravirt, and nothing else"
    )
    parser.add_argument("--dravirt-namespace", metavar="NAME", help="(default: what the webhook configurations say)")
    parser.add_argument("--kubeconfig", metavar="FILE", type=Path, help="(default: as kubectl, or as the pod it is in)")
    parser.add_argument("--context", metavar="NAME", help="the kubeconfig's context (default: the current one)")


def run(args: argparse.Namespace) -> int:
    """Look, print and return the exit code. Raises Failed."""
    server = _connect(args)
    scope = Scope(
        args.namespace, args.namespace or os.environ.get("POD_NAMESPACE") or "default", args.dravirt_namespace
    )
    checks = BEFORE_UNINSTALL if args.before_uninstall else CHECKS
    diagnosis = diagnose(gather(server, scope), checks)
    if args.fix and _fix(server, diagnosis):
        diagnosis = diagnose(gather(server, scope), checks)
    print(json.dumps(to_json(diagnosis), indent=2) if args.output == "json" else to_text(diagnosis))
    # A removal that follows on code 0 must not rest on VMs that nobody saw.
    unseen = args.before_uninstall and diagnosis.count(Severity.UNKNOWN)
    return 0 if diagnosis.is_good and not unseen else 1


def _connect(args: argparse.Namespace) -> "Server":
    # Imported here: the client takes 10 MB, and `--help` needs none.
    from certs.cluster import connect
    from cli.doctor.server import Server

    in_pod = "KUBERNETES_SERVICE_HOST" in os.environ and not (args.kubeconfig or os.environ.get("KUBECONFIG"))
    try:
        return Server(connect(args.kubeconfig, args.context, in_cluster=in_pod))
    except Refused as error:
        # Not a finding about the cluster: nothing could be looked at.
        raise Failed(error.reason, error.message) from error


def _fix(server: "Server", diagnosis: Diagnosis) -> bool:
    """Make the changes that are safe and say so; return whether there were any. Raises Failed."""
    fixes = [each for each in diagnosis.findings if each.fix]
    for each in fixes:
        if each.fix:
            server.change(each.fix)
            sys.stderr.write(f"changed: {each.subject}: {each.code}: {json.dumps(each.fix.operations)}\n")
    if not fixes:
        sys.stderr.write("nothing was found that is safe to change unasked\n")
    return bool(fixes)
