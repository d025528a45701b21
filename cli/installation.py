"""What commands ask about an installation: where its objects are, and how long its certificates live."""

import argparse
import datetime as dt
import re
from typing import TYPE_CHECKING

from certs.certificates import service_names
from certs.policy import Policy
from certs.store import Place
from dra.contract import SERVICE_NAME
from webhook.servicekeys import own_namespace

if TYPE_CHECKING:
    from certs.cluster import Cluster

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d{1,6})([smhd])")
_DEFAULTS = Policy()

Arguments = argparse._ActionsContainer  # noqa: SLF001 (a parser or a group of its arguments: argparse has no other name)


def add_installation(parser: Arguments) -> None:
    """Declare where the installation's objects are."""
    parser.add_argument(
        "--namespace", default=own_namespace(), help="dravirt's namespace (default: POD_NAMESPACE, or %(default)s)"
    )
    parser.add_argument("--service", default=SERVICE_NAME, help="the webhook's Service (default: %(default)s)")
    parser.add_argument("--secret", default=f"{SERVICE_NAME}-tls", help="the Secret (default: %(default)s)")
    parser.add_argument(
        "--webhooks", metavar="NAME", default="dravirt", help="the webhook configurations (default: %(default)s)"
    )
    parser.add_argument(
        "--cluster-domain", metavar="DOMAIN", default="", help="such as cluster.local: one name more in the certificate"
    )


def add_policy(parser: Arguments) -> None:
    """Declare how long certificates live and a rotation waits."""
    for option, default, text in (
        ("--ca-lifetime", _DEFAULTS.authority_life, "how long an authority is valid; its successor comes at 2/3 of it"),
        ("--cert-lifetime", _DEFAULTS.leaf_life, "how long a certificate is valid; its successor comes at 2/3 of it"),
        ("--overlap", _DEFAULTS.overlap, "how long the authority before stays trusted"),
        ("--propagation", _DEFAULTS.propagation, "how long until every API server uses a changed caBundle"),
        ("--interval", _DEFAULTS.interval, "how often Secret, caBundles or files are looked at"),
    ):
        parser.add_argument(
            option, metavar="TIME", type=duration, default=default, help=f"{text} (default: {shown(default)})"
        )


def names_of(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the names that the certificate must have."""
    return service_names(args.service, args.namespace, args.cluster_domain)


def policy_of(args: argparse.Namespace) -> Policy:
    """Return the policy that the options give. Raises Refused."""
    return Policy(args.ca_lifetime, args.cert_lifetime, args.overlap, args.propagation, args.interval)


def connected(args: argparse.Namespace, *, in_cluster: bool) -> "Cluster":
    """Return the cluster that the options name. Raises Refused or Failed."""
    # Imported here: the client takes 10 MB, and who brings his own files needs none.
    from certs.cluster import Cluster, connect

    client = connect(args.kubeconfig, getattr(args, "context", None), in_cluster=in_cluster)
    return Cluster(client, Place(args.namespace, args.secret, args.webhooks))


def duration(text: str) -> dt.timedelta:
    """Return the time that a text such as 90s, 15m, 12h or 30d gives."""
    if not (match := _DURATION.fullmatch(text)):
        raise argparse.ArgumentTypeError(f"{text!a} is no time such as 90s, 15m, 12h or 30d")
    return dt.timedelta(seconds=int(match[1]) * _UNITS[match[2]])


def shown(time: dt.timedelta) -> str:
    """Return a time as `duration` reads it, in the largest unit that is exact."""
    seconds = int(time.total_seconds())
    unit, size = next((unit, size) for unit, size in reversed(_UNITS.items()) if seconds % size == 0)
    return f"{seconds // size}{unit}"
