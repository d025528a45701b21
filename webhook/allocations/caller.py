"""Who asks: what the API server says about the token of a pod.

All that is known of the caller comes from here, nothing from what it sends beside the token.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dra.contract import TOKEN_AUDIENCE
from dra.errors import Refused
from dra.names import is_dns_label, is_dns_subdomain
from dra.reasons import Reason
from webhook.raw import mapping

_SERVICE_ACCOUNT = "system:serviceaccount:"
_EXTRA = "authentication.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class Caller:
    """The pod that a token was made for."""

    namespace: str
    pod: str
    uid: str
    node: str


def token_review(token: str) -> dict[str, Any]:
    """Return the TokenReview that asks about `token` for our audience."""
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": [TOKEN_AUDIENCE]},
    }


def read_caller(review: Mapping[str, Any]) -> Caller:
    """Return the caller that an answered TokenReview names. Raises Refused.

    The audience must be in the status: an authenticator that knows no audiences leaves it out and takes any token.
    Source: k8s.io/api/authentication/v1, TokenReviewStatus; k8s.io/apiserver, serviceaccount/util.go.
    """
    status = mapping(review, "status")
    audiences = status.get("audiences")
    is_ours = isinstance(audiences, list) and TOKEN_AUDIENCE in audiences
    if status.get("authenticated") is not True or not is_ours:
        why = status.get("error")
        detail = f": {why[:300]}" if isinstance(why, str) and why else ""
        raise Refused(Reason.INVALID_TOKEN, f"the token is not valid for the audience {TOKEN_AUDIENCE}{detail}")
    user = mapping(status, "user")
    extra = mapping(user, "extra")
    pod, uid, node = (_one(extra, key) for key in ("pod-name", "pod-uid", "node-name"))
    if not is_dns_subdomain(pod) or not is_dns_subdomain(node):
        raise _no_pod()
    return Caller(_namespace(user.get("username")), pod, uid, node)


def _namespace(username: object) -> str:
    """Return the namespace in `system:serviceaccount:<namespace>:<name>`."""
    if not isinstance(username, str) or not username.startswith(_SERVICE_ACCOUNT):
        raise _no_pod()
    namespace, colon, account = username.removeprefix(_SERVICE_ACCOUNT).partition(":")
    if not is_dns_label(namespace) or not colon or not is_dns_subdomain(account):
        raise _no_pod()
    return namespace


def _one(extra: Mapping[str, Any], key: str) -> str:
    values = extra.get(_EXTRA + key)
    if not isinstance(values, list) or len(values) != 1 or not isinstance(values[0], str) or not values[0]:
        raise _no_pod()
    return values[0]


def _no_pod() -> Refused:
    message = "the token names no single pod and node: it must be the one projected into the container dravirt-hook"
    return Refused(Reason.INVALID_TOKEN, message)
