"""A cluster in a simulated hour: a Secret, webhook configurations, versions, clocks, and replicas in any order."""

import base64
import copy
import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jsonpatch
from support.authorities import NAMES, NOW, QUICK, client_trusts

from certs.cabundle import bundles
from certs.certificates import Certificate, read_certificates
from certs.selfmanaged import SelfManaged
from certs.store import Conflict, Place, Reading

PLACE = Place("dravirt-system", "dravirt-webhook-tls", "dravirt")
WEBHOOKS = {
    "MutatingWebhookConfiguration": ("vm.dravirt.io", "vmi.dravirt.io", "pod.dravirt.io"),
    "ValidatingWebhookConfiguration": ("validate.pod.dravirt.io",),
}


def configuration(kind: str, names: tuple[str, ...], bundle: bytes | None = None) -> dict[str, Any]:
    """Return a webhook configuration as the API server gives it."""
    trust = {} if bundle is None else {"caBundle": base64.b64encode(bundle).decode()}
    service = {"service": {"name": "dravirt-webhook", "namespace": "dravirt-system", "path": "/mutate"}}
    hooks = [{"name": name, "clientConfig": {**service, **trust}, "sideEffects": "None"} for name in names]
    return {"kind": kind, "metadata": {"name": "dravirt", "resourceVersion": "1"}, "webhooks": hooks}


@dataclass
class Cluster:
    """The objects with their versions, and the clocks: `seconds` since the start, `now` of the API server."""

    lag: float = 0.0
    """Seconds after which API servers use a changed caBundle."""
    seconds: float = 0.0
    jumped: dt.timedelta = dt.timedelta()
    secret: dict[str, Any] | None = None
    configurations: dict[str, dict[str, Any]] = field(default_factory=dict)
    writes: int = 0
    _version: int = 1
    _used: list[tuple[float, list[bytes]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.configurations = {kind: configuration(kind, names) for kind, names in WEBHOOKS.items()}

    @property
    def now(self) -> dt.datetime:
        return NOW + self.jumped + dt.timedelta(seconds=int(self.seconds))

    def version(self) -> str:
        self._version += 1
        return str(self._version)

    def changed(self) -> None:
        """Note the caBundles of this moment, for API servers to use after their lag."""
        trust = [bundle for each in self.configurations.values() for bundle in bundles(each).values()]
        self._used.append((self.seconds, trust))

    def used(self) -> set[tuple[Certificate, ...]]:
        """Return the authorities that the slowest API server trusts for the webhooks now."""
        seen = [trust for since, trust in self._used if since <= self.seconds - self.lag]
        return {read_certificates(bundle) for bundle in set(seen[-1])} if seen else set()

    def set_trust(self, bundle: bytes | None, *, of: int | None = None) -> None:
        """Let somebody else write the caBundles, or only that of one webhook."""
        for kind, names in WEBHOOKS.items():
            for index, name in enumerate(names):
                if of is None or of == index:
                    (entry,) = configuration(kind, (name,), bundle)["webhooks"]
                    self.configurations[kind]["webhooks"][index] = entry
            self.configurations[kind]["metadata"]["resourceVersion"] = self.version()
        self.changed()

    def set_secret(self, data: dict[str, bytes] | None) -> None:
        """Let somebody else write the Secret, or delete it."""
        if data is None:
            self.secret = None
            return
        encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
        self.secret = {"metadata": {"resourceVersion": self.version()}, "data": encoded}

    def data(self) -> dict[str, bytes]:
        return Reading(self.now, self.secret).data


@dataclass
class Access:
    """One replica's access: a certain call may be held up while something else happens."""

    cluster: Cluster
    place: Place = PLACE
    before: Callable[[], None] = lambda: None
    """Called before each request."""

    def configurations(self) -> tuple[dict[str, Any], ...]:
        self.before()
        return tuple(copy.deepcopy(list(self.cluster.configurations.values())))

    def secret(self) -> Reading:
        self.before()
        return Reading(self.cluster.now, copy.deepcopy(self.cluster.secret))

    def write(self, before: Reading, data: dict[str, bytes]) -> None:
        self.before()
        there = self.cluster.secret
        if (before.secret is None) != (there is None):
            raise Conflict("it was made or deleted since")
        if there and before.secret["metadata"]["resourceVersion"] != there["metadata"]["resourceVersion"]:
            raise Conflict("it has changed since")
        self.cluster.set_secret({**Reading(before.now, there).data, **data})
        self.cluster.writes += 1

    def patch(self, read: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
        self.before()
        there = patched(self.cluster.configurations[read["kind"]], operations, self.cluster.version())
        self.cluster.configurations[read["kind"]] = there
        self.cluster.changed()
        return copy.deepcopy(there)


def patched(item: dict[str, Any], operations: list[dict[str, Any]], version: str) -> dict[str, Any]:
    """Return `item` after a JSON Patch, as the API server applies it: of another version than the patch's, it fails."""
    for operation in operations:
        if (
            operation["path"] == "/metadata/resourceVersion"
            and operation["value"] != item["metadata"]["resourceVersion"]
        ):
            raise Conflict("the object has been modified")
    try:
        after = jsonpatch.apply_patch(item, operations)
    except jsonpatch.JsonPatchTestFailed as error:
        raise Conflict("the entry is not where it was") from error
    return {**after, "metadata": {**after["metadata"], "resourceVersion": version}}


class Replica:
    """A replica that may be killed and started again."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.restart()

    def restart(self) -> None:
        self.access = Access(self.cluster)
        self.source = SelfManaged(
            self.access, NAMES, QUICK, monotonic=lambda: self.cluster.seconds, sleep=lambda _: None
        )
        self.leaf: Certificate | None = None

    def look(self) -> None:
        (self.leaf, *_) = read_certificates(self.source.read().chain)

    def is_trusted(self) -> bool:
        """True where the slowest API server takes what this replica serves, for every webhook."""
        trust = self.cluster.used()
        assert self.leaf
        return bool(trust) and all(client_trusts(self.leaf, each, self.cluster.now) for each in trust)
