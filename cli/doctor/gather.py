"""A look at a cluster: it asks the API server, as whoever runs the command, and returns facts."""

from dataclasses import dataclass

from certs.cabundle import bundles
from certs.certificates import service_names
from cli.doctor import dryrun, settings
from cli.doctor.facts import Facts, Objects, Place, RawObject, Right, Rights, Settings, Trust, Unseen, Verdict
from cli.doctor.handshake import addresses, handshakes
from cli.doctor.kubevirt import HCO_GROUP
from cli.doctor.registration import MUTATING, VALIDATING, entries, is_ours
from cli.doctor.rights import ALLOCATIONS, certificate_rights, review
from cli.doctor.server import Server
from cli.doctor.trust import trust_by_handshakes, trust_by_secret
from dra.contract import DEFAULT_NAMESPACE, SERVICE_NAME
from dra.errors import Failed
from dra.reasons import Reason
from webhook.kubedra import VERSIONS
from webhook.raw import mapping, mappings, name_of

_DRA = "/apis/resource.k8s.io"
_KUBEVIRT = "/apis/kubevirt.io/v1"
_PATTERNS = ("instancetypes", "clusterinstancetypes", "preferences", "clusterpreferences")
_REFUSED = 300


@dataclass(frozen=True, slots=True)
class Scope:
    """What to look at."""

    namespace: str | None
    """The only namespace whose VMs are looked at, None for all."""
    trial: str
    """The namespace in which objects are tried."""
    dravirt: str | None
    """dravirt's namespace, None for the one that the webhook configurations name."""


def gather(server: Server, scope: Scope) -> Facts:
    """Return the facts. Raises Failed where the API server does not answer."""
    version = server.get("/version")
    if version is None or isinstance(version, Unseen):
        why = version.why if isinstance(version, Unseen) else "there is no /version"
        raise Failed(Reason.API_UNAVAILABLE, f"this is no Kubernetes API server: {why}")
    served = _served(server)
    registrations = _registrations(server)
    place = _place(registrations, scope)
    deployment = _deployment(server, place)
    read = _settings(server, deployment, place)
    endpoints = server.list(
        f"/apis/discovery.k8s.io/v1/namespaces/{place.namespace}/endpointslices",
        labels=f"kubernetes.io/service-name={place.service}",
    )
    return Facts(
        now=server.now,
        version=str(version.get("gitVersion")),
        served=served,
        tried_pod=_tried_pod(server, scope.trial),
        tried_vm=_tried_vm(server, scope.trial, place),
        kubevirt=_first(server.list(f"{_KUBEVIRT}/kubevirts")),
        hyperconverged=_hyperconverged(server),
        registrations=registrations,
        place=place,
        deployment=deployment,
        budgets=server.list(f"/apis/policy/v1/namespaces/{place.namespace}/poddisruptionbudgets"),
        endpoints=endpoints,
        settings=read,
        trust=_trust(server, registrations, place, deployment, endpoints),
        rights=_rights(server, registrations, place, deployment, read),
        slices=_dra(server, served, "resourceslices"),
        classes=_dra(server, served, "deviceclasses"),
        machines=server.list(_path(_KUBEVIRT, scope.namespace, "virtualmachines")),
        instances=server.list(_path(_KUBEVIRT, scope.namespace, "virtualmachineinstances")),
        patterns=_patterns(server, scope.namespace),
    )


def _served(server: Server) -> tuple[str, ...] | Unseen:
    group = server.get(_DRA)
    if isinstance(group, Unseen):
        return group
    return tuple(str(each.get("version")) for each in mappings(group or {}, "versions"))


def _dra(server: Server, served: tuple[str, ...] | Unseen, plural: str) -> Objects | Unseen:
    if isinstance(served, Unseen):
        return served
    version = next((each for each in VERSIONS if each in served), None)
    return () if version is None else server.list(f"{_DRA}/{version}/{plural}")


def _path(group: str, namespace: str | None, plural: str) -> str:
    return f"{group}/namespaces/{namespace}/{plural}" if namespace else f"{group}/{plural}"


def _first(found: Objects | Unseen) -> RawObject | Unseen | None:
    return found if isinstance(found, Unseen) else next(iter(found), None)


def _hyperconverged(server: Server) -> RawObject | Unseen | None:
    """Return the HyperConverged, in the version whose fields have been longer where they are."""
    for version in ("v1beta1", "v1"):
        found = _first(server.list(f"/apis/{HCO_GROUP}/{version}/hyperconvergeds"))
        if found is not None:
            return found
    return None


def _registrations(server: Server) -> Objects | Unseen:
    found: list[RawObject] = []
    for kind in (MUTATING, VALIDATING):
        items = server.list(f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s")
        if isinstance(items, Unseen):
            return items
        found += [each for each in items if is_ours(each)]
    return tuple(found)


def _place(registrations: Objects | Unseen, scope: Scope) -> Place:
    """Return where dravirt is: as asked for, as its webhooks say, or as it is by default."""
    services: list[RawObject] = []
    if not isinstance(registrations, Unseen):
        services = [mapping(each.raw, "clientConfig", "service") for each in entries(registrations)]
    service = next((each for each in services if each), {})
    namespace = scope.dravirt or str(service.get("namespace") or DEFAULT_NAMESPACE)
    return Place(namespace, str(service.get("name") or SERVICE_NAME))


def _tried_pod(server: Server, namespace: str) -> Verdict | Unseen:
    verdict = server.try_out(f"/api/v1/namespaces/{namespace}/pods", dryrun.pod(namespace))
    if isinstance(verdict, Verdict) and verdict.code >= _REFUSED:
        return Unseen(verdict.message)
    return verdict


def _tried_vm(server: Server, namespace: str, place: Place) -> Verdict | Unseen:
    if namespace in {"kube-system", place.namespace}:
        return Unseen(f"VMs of the namespace {namespace} are left out by dravirt's webhooks: name another with -n")
    verdict = server.try_out(_path(_KUBEVIRT, namespace, "virtualmachines"), dryrun.vm(namespace))
    return verdict if isinstance(verdict, Unseen) or dryrun.tells(verdict) else Unseen(verdict.message)


def _deployment(server: Server, place: Place) -> RawObject | Unseen:
    found = server.get(f"/apis/apps/v1/namespaces/{place.namespace}/deployments/{place.service}")
    return Unseen(f"there is none called {place.namespace}/{place.service}") if found is None else found


def _settings(server: Server, deployment: RawObject | Unseen, place: Place) -> Settings | Unseen | None:
    if isinstance(deployment, Unseen):
        return deployment
    if (source := settings.source(deployment)) is None:
        return None
    item = server.get(f"/api/v1/namespaces/{place.namespace}/configmaps/{source.config_map}")
    if item is None:
        return Unseen(f"there is no ConfigMap {place.namespace}/{source.config_map}")
    return item if isinstance(item, Unseen) else settings.read_settings(item, source.key, deployment)


def _trust(
    server: Server,
    registrations: Objects | Unseen,
    place: Place,
    deployment: RawObject | Unseen,
    endpoints: Objects | Unseen,
) -> Trust | Unseen:
    """Return how the certificate stands: by the Secret, or by handshakes where that cannot be read."""
    if isinstance(registrations, Unseen):
        return registrations
    name, *_ = service_names(place.service, place.namespace)
    path = f"/api/v1/namespaces/{place.namespace}/secrets/{_secret(deployment, place)}"
    if isinstance(secret := server.get(path), Unseen) or secret is None:
        why = secret.why if isinstance(secret, Unseen) else f"there is no {path}"
        if isinstance(endpoints, Unseen):
            return Unseen(f"{why}; {endpoints.why}")
        trusted = [bundle for item in registrations for bundle in bundles(item).values()]
        if (failures := handshakes(addresses(endpoints), name, trusted)) is None:
            return Unseen(f"{why}; and no server behind the Service can be reached from here")
        return trust_by_handshakes(failures, registrations)
    return trust_by_secret(secret, registrations, name, server.now)


def _secret(deployment: RawObject | Unseen, place: Place) -> str:
    """Return the name of the Secret with the certificate: the one mounted, or the one that dravirt keeps."""
    if isinstance(deployment, Unseen):
        return f"{place.service}-tls"
    mounted = [
        str(name)
        for each in mappings(deployment, "spec", "template", "spec", "volumes")
        if (name := mapping(each, "secret").get("secretName"))
    ]
    kept = settings.option(settings.container(deployment), "--secret")
    return next(iter(mounted), kept or f"{place.service}-tls")


def _rights(
    server: Server,
    registrations: Objects | Unseen,
    place: Place,
    deployment: RawObject | Unseen,
    read: Settings | Unseen | None,
) -> Rights | Unseen:
    """Return what the service account may not do, of what is switched on."""
    if isinstance(deployment, Unseen):
        return deployment
    if isinstance(read, Unseen):
        return read
    account = str(mapping(deployment, "spec", "template", "spec").get("serviceAccountName") or "default")
    allocations = _denied(server, place, account, ALLOCATIONS if read and read.config.allocation_service else ())
    needed: tuple[Right, ...] = ()
    if settings.option(settings.container(deployment), "--tls-self-managed") and not isinstance(registrations, Unseen):
        names = {name_of(mapping(each, "metadata")) for each in registrations}
        needed = certificate_rights(place.namespace, _secret(deployment, place), names)
    certificates = _denied(server, place, account, needed)
    if isinstance(allocations, Unseen):
        return allocations
    if isinstance(certificates, Unseen):
        return certificates
    return Rights(account, allocations, certificates)


def _denied(server: Server, place: Place, account: str, rights: tuple[Right, ...]) -> tuple[Right, ...] | Unseen:
    denied = []
    for right in rights:
        answer = server.ask(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews", review(account, place.namespace, right)
        )
        if isinstance(answer, Unseen):
            return answer
        if mapping(answer, "status").get("allowed") is not True:
            denied.append(right)
    return tuple(denied)


def _patterns(server: Server, namespace: str | None) -> Objects | Unseen:
    """Return instancetypes and preferences, none where KubeVirt has no such kinds."""
    found: list[RawObject] = []
    for plural in _PATTERNS:
        where = None if plural.startswith("cluster") else namespace
        for version in ("v1beta1", "v1"):
            items = server.list(_path(f"/apis/instancetype.kubevirt.io/{version}", where, f"virtualmachine{plural}"))
            if isinstance(items, Unseen):
                return items
            found += items
            if items:
                break
    return tuple(found)
