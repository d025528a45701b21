"""Serve the admission webhooks.

examples:
  dravirt webhook --tls-cert tls.crt --tls-key tls.key                       # as in a pod
  dravirt webhook --tls-cert tls.crt --tls-key tls.key --config config.yaml
  dravirt webhook --plain-http --host 127.0.0.1 --port 0                     # to try it, on any free port
  curl http://127.0.0.1:PORT/readyz

The paths are /mutate/vm, /mutate/vmi, /mutate/pod and /validate/pod, and for the kubelet /healthz and /readyz. The
configuration file is read again when it changes. SIGTERM drains: the server is not ready, goes on answering for
--drain-seconds, finishes what is under way and exits with code 0. The log is one JSON object a line on stderr.

Where the configuration has allocationService, sidecars are answered at /v1/allocations, and the API server is asked: as
the pod's service account, or outside a cluster by --kubeconfig.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from webhook.allocations.parts import allocation_parts
from webhook.app import create_app
from webhook.config import Config
from webhook.configfile import ConfigFile
from webhook.log import LEVELS, EventLog, configure
from webhook.lookups import look_ups
from webhook.readiness import Condition, Readiness
from webhook.server import Address, serve, tls_context

_WRONG_USAGE = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("--config", metavar="FILE", type=Path, help="the configuration file (default: all defaults)")
    parser.add_argument("--host", default="", help="the address to listen on (default: all)")
    parser.add_argument("--port", type=int, default=8443, help="the port, 0 for any (default: %(default)s)")
    parser.add_argument("--tls-cert", metavar="FILE", type=Path, help="the certificate chain, PEM")
    parser.add_argument("--tls-key", metavar="FILE", type=Path, help="its private key, PEM")
    parser.add_argument("--plain-http", action="store_true", help="serve without TLS, which no API server calls")
    parser.add_argument(
        "--drain-seconds",
        metavar="N",
        type=float,
        default=5.0,
        help="answer for so long after SIGTERM (default: %(default)g)",
    )
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        type=Path,
        help="how to ask the API server for allocations (default: as the pod's service account)",
    )
    parser.add_argument("--log-level", choices=LEVELS, default="info", help="(default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT and return the exit code. Raises Refused or Failed where it cannot start."""
    certificate = [file for file in (args.tls_cert, args.tls_key) if file]
    if len(certificate) != (0 if args.plain_http else 2):
        sys.stderr.write("dravirt webhook: give --tls-cert and --tls-key, or --plain-http without them\n")
        return _WRONG_USAGE
    configure(args.log_level)
    config, configuration = _configuration(args.config)
    tls = None if args.plain_http else tls_context(*certificate)
    readiness = Readiness({"configuration": configuration})
    parts = allocation_parts(config, args.kubeconfig)
    app = create_app(
        config, readiness, EventLog("webhook.admission"), look_up=look_ups(parts.cluster), routes=[parts.router]
    )
    serve(app, Address(args.host, args.port), tls, readiness, drain_seconds=args.drain_seconds)
    return 0


def _configuration(path: Path | None) -> tuple[Callable[[], Config], Callable[[], Condition]]:
    """Return what gives the configuration of the moment, and the check of its file."""
    if path is None:
        defaults = Config()
        return lambda: defaults, lambda: Condition(ready=True)
    file = ConfigFile(path)

    def check() -> Condition:
        file.current()
        return Condition(ready=True, detail=f"the last good one is used: {file.error}" if file.error else "")

    return file.current, check
