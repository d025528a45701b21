"""What commands ask about an installation: where its objects are, and how long its certificates live."""

import argparse
import datetime as dt
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from certs.certificates import service_names
from certs.policy import Policy
from certs.store import Place
from dra.contract import DEFAULT_NAMESPACE, SERVICE_NAME
from dra.names import is_dns_label, is_dns_subdomain
from webhook.config import SidecarConfig
from webhook.image import is_image

if TYPE_CHECKING:
    from certs.cluster import Cluster

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d{1,6})([smhd])")
_DEFAULTS = Policy()

Arguments = argparse._ActionsContainer  # noqa: SLF001 (a parser or a group of its arguments: argparse has no other name)


def add_installation(parser: Arguments) -> None:
    """Declare where the installation's objects are: every name that another installation may choose."""
    label, subdomain = (is_dns_label, "DNS label"), (is_dns_subdomain, "DNS subdomain")
    _add(parser, "--namespace", "POD_NAMESPACE", DEFAULT_NAMESPACE, "dravirt's namespace", *label)
    _add(parser, "--service", "DRAVIRT_SERVICE", SERVICE_NAME, "the webhook's Service", *label)
    _add(parser, "--secret", "DRAVIRT_SECRET", f"{SERVICE_NAME}-tls", "the Secret of the certificates", *subdomain)
    _add(parser, "--webhooks", "DRAVIRT_WEBHOOKS", "dravirt", "the webhook configurations", *subdomain)
    text = "such as cluster.local: one name more in the certificate"
    _add(parser, "--cluster-domain", "DRAVIRT_CLUSTER_DOMAIN", "", text, *subdomain)


def add_sidecar_image(parser: Arguments) -> None:
    """Declare the sidecar's image: manifests give it where kustomize can change it."""
    text, what = "where the configuration names none", "image reference ([host/]path[:tag][@digest])"
    _add(parser, "--sidecar-image", "DRAVIRT_SIDECAR_IMAGE", SidecarConfig().image, text, is_image, what)


def _add(  # noqa: PLR0917 (a row of a table)
    parser: Arguments, option: str, variable: str, default: str, text: str, is_right: Callable[[str], bool], what: str
) -> None:
    """Declare an option that a manifest may set by a variable as well, which counts where it is not empty."""

    def read(value: str) -> str:
        if value and not is_right(value):
            raise argparse.ArgumentTypeError(f"{value[:80]!a} is no {what} ({option} or {variable})")
        return value or default

    parser.add_argument(
        option,
        metavar=option.rpartition("-")[2].upper(),
        type=read,
        default=os.environ.get(variable, ""),
        help=f"{text} (default: {variable}, or {default or 'none'})",
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
    # Imported here: the client takes 10 MB, and who brings the files needs none.
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
