"""The webhook as one process: configuration, readiness and application put together, and served."""

import argparse
from pathlib import Path

from webhook.admission import HANDLERS
from webhook.allocations.parts import allocation_parts
from webhook.app import create_app
from webhook.authorities import OwnAuthorities
from webhook.certificates import ServingCertificates
from webhook.config import Installation
from webhook.configfile import ConfigFile
from webhook.health import health_app
from webhook.log import LEVELS, EventLog
from webhook.lookups import look_ups
from webhook.metrics import Metrics, StateCollector
from webhook.readiness import Check, Condition, Readiness
from webhook.server import Address, serve

_MAX_PORT = 65535
_MAX_DRAIN = 3600


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    text = "the configuration file, or a folder of such files (default: all defaults)"
    parser.add_argument("--config", metavar="PATH", type=Path, help=text)
    parser.add_argument("--host", default="", help="the address to listen on (default: all)")
    parser.add_argument("--port", type=_port, default=8443, help="the port, 0 for any (default: %(default)s)")
    parser.add_argument(
        "--health-port",
        metavar="PORT",
        type=_port,
        default=8081,
        help="the port for health and metrics in plain HTTP, 0 for any (default: %(default)s)",
    )
    parser.add_argument(
        "--drain-seconds",
        metavar="N",
        type=_seconds,
        default=5.0,
        help="answer for so long after SIGTERM (default: %(default)g)",
    )
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        type=Path,
        help="how to reach the API server (default: as the pod's service account)",
    )
    parser.add_argument("--log-level", choices=LEVELS, default="info", help="(default: %(default)s)")


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= _MAX_PORT:
        raise argparse.ArgumentTypeError(f"must be between 0 and {_MAX_PORT}, got {port}")
    return port


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds <= _MAX_DRAIN:  # (not a number is not, either)
        raise argparse.ArgumentTypeError(f"must be between 0 and {_MAX_DRAIN}, got {text}")
    return seconds


def serve_webhook(
    args: argparse.Namespace, installation: Installation, certificates: ServingCertificates | None
) -> int:
    """Serve until SIGTERM or SIGINT and return the exit code; without `certificates` in plain HTTP.

    Where certificates come from is no business of the webhook's. Raises Refused or Failed where it cannot start.
    """
    file = ConfigFile(args.config, installation)
    own = OwnAuthorities(file.current, (certificates.authorities if certificates else None) or str)
    checks: dict[str, Check] = {"configuration": lambda: _condition(file), "authorities": own.check}
    if certificates:
        checks["certificate"] = certificates.check
    readiness = Readiness(checks)
    metrics = Metrics(*HANDLERS)
    metrics.registry.register(StateCollector(readiness, file, certificates.numbers if certificates else None))
    parts = allocation_parts(own.config, args.kubeconfig, metrics.allocations(EventLog("webhook.allocations")))
    record = metrics.admissions(EventLog("webhook.admission"))
    app = create_app(own.config, readiness, record, look_up=look_ups(parts.cluster), routes=[parts.router])
    serve(
        app,
        Address(args.host, args.port),
        certificates.tls if certificates else None,
        readiness,
        drain_seconds=args.drain_seconds,
        health=(health_app(readiness, metrics.exposition), Address(args.host, args.health_port)),
    )
    return 0


def _condition(file: ConfigFile) -> Condition:
    file.current()
    return Condition(ready=True, detail=f"the last good one is used: {file.error}" if file.error else "")
