"""The webhook as one process: configuration, readiness and application put together, and served."""

import argparse
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path

from webhook.allocations.parts import allocation_parts
from webhook.app import create_app
from webhook.config import Config
from webhook.configfile import ConfigFile
from webhook.log import LEVELS, EventLog
from webhook.lookups import look_ups
from webhook.readiness import Check, Condition, Readiness
from webhook.server import Address, serve

_MAX_PORT = 65535
_MAX_DRAIN = 3600


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("--config", metavar="FILE", type=Path, help="the configuration file (default: all defaults)")
    parser.add_argument("--host", default="", help="the address to listen on (default: all)")
    parser.add_argument("--port", type=_port, default=8443, help="the port, 0 for any (default: %(default)s)")
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


def serve_webhook(args: argparse.Namespace, tls: ssl.SSLContext | None, checks: Mapping[str, Check]) -> int:
    """Serve until SIGTERM or SIGINT and return the exit code.

    `tls` and the `checks` of its certificate come from outside: where certificates come from is no business of the
    webhook's. Raises Refused or Failed where it cannot start.
    """
    config, configuration = _configuration(args.config)
    readiness = Readiness({"configuration": configuration, **checks})
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
