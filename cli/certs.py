"""Look at the webhook's certificates, and rotate them.

examples:
  dravirt certs status                       # dates, names, who trusts them, and what comes next
  dravirt certs status -o json | jq '.problems'
  dravirt certs init                         # make Secret and caBundles now, before the first replica does
  dravirt certs rotate                       # a new authority, with an overlap: no call is lost
  dravirt certs rotate --at-once             # a key has leaked: trust nothing of before, calls fail for seconds
  dravirt certs export > ca.crt              # the authorities to trust
  dravirt certs export --dir tls             # with certificate and key, as files for --tls-cert and --tls-key

The API server is reached as kubectl reaches it (KUBECONFIG, ~/.kube/config), or by --kubeconfig and --context. `status`
and `export` read what cert-manager or OpenShift's service CA keep as well: name it with --secret.

Exit codes: 0 all is well, 1 `status` has found a problem or the object is refused, 2 wrong usage, 3 the API server does
not answer.
"""

import argparse
import json
import logging
import sys
from pathlib import Path

from certs.material import BUNDLE, CHAIN, KEY, write_material
from certs.report import Dates, Report, survey
from certs.rotation import Change, Step
from certs.selfmanaged import SelfManaged, View
from cli.installation import add_installation, add_policy, connected, names_of, policy_of
from dra.errors import Failed, Refused
from dra.reasons import Reason

_ASKED = "asked for by `dravirt certs rotate`"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    init = actions.add_parser("init", help="make what is missing in Secret and caBundles, and nothing else")
    status = actions.add_parser("status", help="show what is there and what comes next")
    status.add_argument("-o", "--output", choices=("text", "json"), default="text", help="(default: %(default)s)")
    rotate = actions.add_parser("rotate", help="make a new authority; replicas take the further steps")
    which = rotate.add_mutually_exclusive_group()
    which.add_argument("--cert", action="store_true", help="make a new certificate of the same authority only")
    which.add_argument("--at-once", action="store_true", help="trust nothing of before from now on: for a leaked key")
    export = actions.add_parser("export", help="print the authorities to trust, or write them with certificate and key")
    export.add_argument("--dir", metavar="DIR", type=Path, help="write ca.crt, tls.crt and tls.key there")
    for action in (init, status, rotate, export):
        action.add_argument("--kubeconfig", metavar="FILE", type=Path, help="(default: as kubectl)")
        action.add_argument("--context", metavar="NAME", help="the kubeconfig's context (default: the current one)")
        add_installation(action)
        add_policy(action)


def run(args: argparse.Namespace) -> int:
    """Do what is asked and return the exit code. Raises Refused or Failed."""
    logging.basicConfig(format="%(message)s", level=logging.INFO, force=True)  # (on stderr)
    kept = SelfManaged(connected(args, in_cluster=False), names_of(args), policy_of(args))
    if args.action == "status":
        return _status(kept.look(), args)
    if args.action == "export":
        _export(kept.look(), args.dir)
        return 0
    _refuse_foreign(kept.look())
    view = kept.keep([] if args.action == "init" else [_asked(args)])
    if view.trouble:
        raise Failed(Reason.API_UNAVAILABLE, view.trouble)
    _tell_next(survey(view, names_of(args), policy_of(args)))
    return 0


def _asked(args: argparse.Namespace) -> Step:
    if args.at_once:
        return Step(Change.ANEW, _ASKED)
    return Step(Change.LEAF if args.cert else Change.AUTHORITY, _ASKED)


def _refuse_foreign(view: View) -> None:
    """Raise Refused where the Secret holds a certificate, and no authority's key to sign another with."""
    material = view.state.material
    if material.leaf and material.authority is None:
        message = "the Secret holds a certificate, and no authority's key: whoever issues it has to renew it"
        raise Refused(Reason.NOT_SELF_MANAGED, message)


def _status(view: View, args: argparse.Namespace) -> int:
    report = survey(view, names_of(args), policy_of(args))
    if args.output == "json":
        json.dump(report.to_json(), sys.stdout, indent=2)
        print()
    else:
        print(
            f"Secret {args.namespace}/{args.secret}, {'kept by dravirt' if report.self_managed else 'not by dravirt'}"
        )
        _print(report)
    return 1 if report.problems else 0


def _print(report: Report) -> None:
    for authority in report.authorities:
        _line("authority", f"{_dated(authority, report)}{', signs' if authority.signs else ''}")
    if report.certificate:
        _line("certificate", _dated(report.certificate, report))
        _line("", f"for {', '.join(report.certificate.names) or 'no name at all'}")
        _line("", f"signed by {report.certificate.issuer or 'an authority that is not in the Secret'}")
    for name, trusts in report.webhooks.items():
        _line("webhook", f"{name} {'trusts it' if trusts else 'does not trust it'}")
    for when, what in report.coming:
        _line("next", f"{when:%Y-%m-%d %H:%M} UTC: {what}")
    for problem in report.problems:
        _line("problem", f"{problem.message} (reason: {problem.reason})")


def _line(label: str, text: str) -> None:
    print(f"  {label:12} {text}")


def _dated(dates: Dates, report: Report) -> str:
    days = (dates.ends - report.now).total_seconds() / 86400
    left = f"{days:.0f} days left" if days >= 2 else f"{days * 24:.1f} hours left"  # noqa: PLR2004 (two days)
    return f"{dates.fingerprint}, {dates.begins:%Y-%m-%d %H:%M} to {dates.ends:%Y-%m-%d %H:%M} UTC ({left})"


def _tell_next(report: Report) -> None:
    for when, what in report.coming:
        sys.stderr.write(f"next, {when:%Y-%m-%d %H:%M} UTC: {what}\n")
    for problem in report.problems:
        sys.stderr.write(f"problem: {problem.message}\n")


def _export(view: View, folder: Path | None) -> None:
    """Print the authorities, or write all that a server needs. The authority's key never leaves the Secret."""
    data = write_material(view.state.material)
    if not data[BUNDLE] and folder is None:
        raise Refused(Reason.INVALID_CERTIFICATE, "the Secret holds no authority")
    if folder is None:
        print(data[BUNDLE].decode(), end="")
        return
    if not (data[CHAIN] and data[KEY]):
        raise Refused(Reason.INVALID_CERTIFICATE, "the Secret holds no certificate")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (BUNDLE, CHAIN, KEY):
            path = folder / name
            path.touch(mode=0o600)
            path.write_bytes(data[name])
            sys.stderr.write(f"written: {path}\n")
    except OSError as error:
        raise Failed(Reason.UNWRITABLE, f"{folder}: {error.strerror}") from error
