"""What dravirt's service account must be allowed to do, as its manifests and its documentation say."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cli.doctor import remedies
from cli.doctor.codes import Code
from cli.doctor.facts import Place, Right, Rights, Settings
from cli.doctor.finding import Finding

_DRA = "resource.k8s.io"
ALLOCATIONS = (
    Right("create", "authentication.k8s.io", "tokenreviews"),
    Right("get", "", "pods"),
    Right("get", _DRA, "resourceclaims"),
    Right("get", _DRA, "resourceclaimtemplates"),
    Right("list", _DRA, "resourceslices"),
)
"""Of the allocation service: `deploy/base/rbac-allocations.yaml`."""


def certificate_rights(namespace: str, secret: str, configurations: Iterable[str]) -> tuple[Right, ...]:
    """Return what self-managed certificates need: `docs/certificates.md`."""
    group = "admissionregistration.k8s.io"
    kinds = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    return (
        Right("create", "", "secrets", namespace),
        *(Right(verb, "", "secrets", namespace, secret) for verb in ("get", "patch")),
        *(
            Right(verb, group, kind, "", name)
            for name in sorted(set(configurations))
            for kind in kinds
            for verb in ("get", "patch")
        ),
    )


def review(account: str, namespace: str, right: Right) -> dict[str, Any]:
    """Return the question whether a service account has a right. Source: k8s.io/api/authorization/v1."""
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    asked = {"verb": right.verb, "group": right.group, "resource": right.resource}
    asked |= {"namespace": right.namespace, "name": right.name}
    user = f"system:serviceaccount:{namespace}:{account}"
    spec = {"user": user, "groups": groups, "resourceAttributes": asked}
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}


def check_rights(rights: Rights, place: Place) -> Iterator[Finding]:
    """Find rights that are missing for what is switched on."""
    subject = f"ServiceAccount {place.namespace}/{rights.account}"
    for code, missing, name in (
        (Code.RIGHTS_MISSING, rights.allocations, "dravirt-allocations"),
        (Code.CERTIFICATE_RIGHTS, rights.certificates, "dravirt-certificates"),
    ):
        if missing:
            needed = missing if code is Code.CERTIFICATE_RIGHTS else ALLOCATIONS
            remedy = remedies.apply(*_granted(name, needed, rights.account, place.namespace))
            yield Finding(code, subject, f"it may not {', '.join(map(str, missing))}", remedy)


def check_service(settings: Settings | None) -> Iterator[Finding]:
    """Tell where the allocation service is off: whether that is right depends on the driver."""
    if settings is None or (not settings.fault and settings.config.allocation_service is None):
        yield Finding(Code.SERVICE_OFF, settings.subject if settings else "dravirt", "the allocation service is off")


def _granted(name: str, rights: Sequence[Right], account: str, namespace: str) -> Iterator[dict[str, Any]]:
    """Yield the roles that give the rights, and their bindings."""
    for scope in sorted({each.namespace for each in rights}):
        kind = "Role" if scope else "ClusterRole"
        metadata = {"name": name} | ({"namespace": scope} if scope else {})
        rules = [
            {"apiGroups": [each.group], "resources": [each.resource], "verbs": [each.verb]}
            | ({"resourceNames": [each.name]} if each.name else {})
            for each in rights
            if each.namespace == scope
        ]
        head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": metadata}
        yield head | {"kind": kind, "rules": rules}
        yield head | {
            "kind": f"{kind}Binding",
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        }
