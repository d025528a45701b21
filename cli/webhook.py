"""Serve the admission webhooks.

examples:
  dravirt webhook --tls-self-managed                                         # in a pod: dravirt keeps the certificates
  dravirt webhook --tls-cert tls.crt --tls-key tls.key                       # someone else does: cert-manager, a person
  dravirt webhook --tls-cert tls.crt --tls-key tls.key --tls-ca ca.crt --config config.yaml
  dravirt webhook --plain-http --host 127.0.0.1 --port 0                     # to try it, on any free port
  curl http://127.0.0.1:PORT/readyz

The paths are /mutate/vm, /mutate/vmi, /mutate/pod and /validate/pod. Beside them, on --health-port and without TLS,
there are /healthz and /readyz for the kubelet and /metrics for Prometheus. The configuration file is read again when it
changes, and so are certificates: no connection is lost. SIGTERM drains: the server is not ready, goes on answering for
--drain-seconds, finishes what is under way and exits with code 0. The log is one JSON object a line on stderr.

Where the configuration has allocationService, sidecars are answered at /v1/allocations, and the API server is asked: as
the pod's service account, or outside a cluster by --kubeconfig. Sidecars trust the authorities of the certificate:
dravirt's own, those of --tls-ca, or those in the file that allocationService.caFile names.
"""

import argparse
import sys
from pathlib import Path

from certs.agent import Agent
from certs.files import Files
from certs.selfmanaged import SelfManaged
from certs.source import Source
from cli.installation import add_installation, add_policy, add_sidecar_image, connected, names_of, policy_of
from webhook import main as webhook
from webhook.certificates import ServingCertificates
from webhook.config import Installation
from webhook.log import configure
from webhook.readiness import Condition
from webhook.tls import VERSIONS, ServingTLS

_WRONG_USAGE = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    webhook.add_arguments(parser)
    tls = parser.add_argument_group("TLS", "where the certificate comes from: one of the three")
    tls.add_argument("--tls-cert", metavar="FILE", type=Path, help="the certificate chain, PEM")
    tls.add_argument("--tls-key", metavar="FILE", type=Path, help="its private key, PEM")
    tls.add_argument("--tls-ca", metavar="FILE", type=Path, help="the authorities it must lead to, PEM (default: any)")
    tls.add_argument(
        "--tls-self-managed",
        action="store_true",
        help="make and rotate it, in a Secret, and keep the caBundle of the webhook configurations",
    )
    tls.add_argument("--plain-http", action="store_true", help="serve without TLS, which no API server calls")
    tls.add_argument(
        "--tls-min-version", choices=VERSIONS, default="1.2", help="the least version (default: %(default)s)"
    )
    tls.add_argument("--tls-ciphers", metavar="LIST", default="", help="of TLS 1.2, as OpenSSL names them")
    group = parser.add_argument_group("the installation", "by option, or by the variable that is named")
    add_sidecar_image(group)
    add_installation(group)
    add_policy(parser.add_argument_group("self-managed certificates"))


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT and return the exit code. Raises Refused or Failed where it cannot start."""
    files = (args.tls_cert is not None, args.tls_key is not None)
    ways = [files == (True, True), args.tls_self_managed, args.plain_http]
    if ways.count(True) != 1 or files[0] != files[1] or (args.tls_ca and not files[0]):
        message = "give --tls-cert and --tls-key, or --tls-self-managed, or --plain-http, and one of them only"
        sys.stderr.write(f"dravirt webhook: {message}\n")
        return _WRONG_USAGE
    configure(args.log_level)
    knows_authorities = args.tls_self_managed or args.tls_ca is not None
    installation = Installation(args.sidecar_image, names_of(args)[0], knows_authorities)
    if args.plain_http:
        return webhook.serve_webhook(args, installation, None)
    tls = ServingTLS(args.tls_min_version, args.tls_ciphers)
    agent = Agent(_source(args), tls.swap, args.interval.total_seconds())
    if args.tls_cert:
        agent.look()  # files that are wrong stop the start; a Secret may be a while in coming
    certificates = ServingCertificates(
        tls.context,
        lambda: Condition(*agent.health()),
        agent.numbers,
        (lambda: agent.authorities) if knows_authorities else None,
    )
    agent.start()
    try:
        return webhook.serve_webhook(args, installation, certificates)
    finally:
        agent.stop()


def _source(args: argparse.Namespace) -> Source:
    if args.tls_cert:
        return Files(args.tls_cert, args.tls_key, args.tls_ca)
    return SelfManaged(connected(args, in_cluster=True), names_of(args), policy_of(args))
