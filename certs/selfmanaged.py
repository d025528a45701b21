"""The source that dravirt keeps itself: a Secret that every replica reads and any replica changes when it is time.

The Secret is the only truth. It is changed by compare-and-swap, so of several replicas one comes first and the others
take what it wrote; the caBundles always follow the Secret.
"""

import datetime as dt
import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from certs.cabundle import RawObject, authorities, bundles, mend
from certs.certificates import Certificate, leads_to, write_certificates, write_key
from certs.material import Material, read_material, write_material
from certs.policy import Policy
from certs.rotation import Change, State, Step, carry_out, is_taken, plan
from certs.source import Offer
from certs.store import Conflict, Reading, Store
from dra.errors import Failed, Refused
from dra.reasons import Reason

_TRIES = 6
_FOREIGN = ("cert-manager.io/", "service.beta.openshift.io/", "service.alpha.openshift.io/")
"""What annotations of other controllers' Secrets begin with."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class View:
    """What one look at the cluster gave: `now` is the API server's time."""

    now: dt.datetime
    state: State
    trust: dict[str, frozenset[Certificate]]
    """The authorities that each registered webhook trusts, by its kind and name, such as `mutating pod.dravirt.io`."""
    trouble: str = ""
    """What failed of the webhook configurations, "" where nothing did."""

    def untrusting(self, material: Material) -> list[str]:
        """Return the webhooks whose caBundle lacks the authority of a certificate."""
        return [name for name, trusted in self.trust.items() if not leads_to(material.chain, trusted, self.now)]


class SelfManaged:
    """One replica's part in keeping the Secret and the caBundles."""

    def __init__(
        self,
        store: Store,
        names: Sequence[str],
        policy: Policy,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._store, self._names, self._policy = store, names, policy
        self._monotonic, self._sleep = monotonic, sleep
        self._served: Material | None = None
        self._trusted: tuple[Certificate, float] | None = None
        """The authority that was in every caBundle when we looked last, and since when."""

    def read(self) -> Offer:
        """Do what is due and return what should be served. Raises Failed where the API server does not let us."""
        view = self.keep()
        served = self._served
        if served is None or is_taken(view.now, served, view.state, self._policy):
            served = view.state.material
        self._served = served
        return _offer(served, view, self._store.place.configuration)

    def keep(self, asked: Sequence[Step] = ()) -> View:
        """Do what is due or asked for in Secret and caBundles, and return what is there then.

        Raises Failed where the API server does not let us, Refused where the Secret is somebody else's. Where only the
        webhook configurations cannot be had, `trouble` says so: a certificate is renewed without them.
        """
        pending = list(asked)
        for attempt in range(_TRIES):
            try:
                return self._keep(pending)
            except Conflict as conflict:
                _log.debug("%s", conflict.message)
                if attempt == _TRIES - 1:
                    raise
                self._sleep(random.uniform(0, 0.05) * 2**attempt)  # noqa: S311 (to part the replicas, not a secret)
        raise AssertionError

    def look(self) -> View:
        """Return what is there, without a change. Raises Failed."""
        configurations = self._store.configurations()
        return self._view(configurations, self._store.secret())

    def _keep(self, asked: list[Step]) -> View:
        # The configurations before the Secret: a bundle that is put into the version read here is then never older
        # than the one it replaces, however long this replica stands still between two lines.
        configurations, trouble = self._configurations()
        reading = self._store.secret()
        _refuse_foreign(reading, self._secret)
        view = self._view(configurations, reading)
        steps = plan(view.now, view.state, self._names, self._policy)
        steps += tuple(step for step in asked if step.change not in {each.change for each in steps})
        if trouble and any(step.change is not Change.LEAF for step in steps):
            raise trouble  # what API servers trust must be known before authorities change
        material = view.state.material
        if steps:
            material = self._changed(reading, view, steps)
            asked.clear()
        bundle = write_certificates(material.bundle)
        mended = []
        for each in configurations:
            try:
                mended.append(self._mended(each, bundle))
            except Conflict:
                raise
            except Failed as error:
                mended.append(each)
                trouble = error
        return replace(self._state(view.now, material, mended), trouble=trouble.message if trouble else "")

    def _configurations(self) -> tuple[Sequence[RawObject], Failed | None]:
        try:
            return self._store.configurations(), None
        except Failed as error:
            return (), error

    def _changed(self, reading: Reading, view: View, steps: Sequence[Step]) -> Material:
        """Return what the Secret holds after the steps."""
        material = carry_out(steps, view.now, view.state, self._names, self._policy)
        self._store.write(reading, write_material(material))
        for step in steps:
            _log.info("%s: %s: %s", self._secret, step.change, step.why)
        return material

    @property
    def _secret(self) -> str:
        return f"Secret {self._store.place.namespace}/{self._store.place.secret}"

    def _mended(self, configuration: RawObject, bundle: bytes) -> RawObject:
        operations = mend(configuration, bundle)
        if not operations:
            return configuration
        changed = self._store.patch(configuration, operations)
        _log.info("%s %s: caBundle set", configuration["kind"], configuration["metadata"]["name"])
        return changed

    def _view(self, configurations: Sequence[RawObject], reading: Reading) -> View:
        material, faults = read_material(reading.data)
        for fault in faults:
            _log.warning("%s: %s", self._secret, fault)
        return self._state(reading.now, material, configurations)

    def _state(self, now: dt.datetime, material: Material, configurations: Sequence[RawObject]) -> View:
        trust = {
            # (the two kinds may have webhooks of one name)
            f"{each['kind'].removesuffix('WebhookConfiguration').lower()} {name}": authorities(bundle)
            for each in configurations
            for name, bundle in bundles(each).items()
        }
        known = frozenset().union(*trust.values())
        return View(now, State(material, known, self._watch(material, list(trust.values()))), trust)

    def _watch(self, material: Material, trust: list[frozenset[Certificate]]) -> dt.timedelta | None:
        """Return how long the authority that signs has been seen in every caBundle."""
        authority = material.authority.certificate if material.authority else None
        if authority is None or not trust or not all(authority in each for each in trust):
            self._trusted = None
            return None
        if self._trusted is None or self._trusted[0] != authority:
            self._trusted = (authority, self._monotonic())
        return dt.timedelta(seconds=self._monotonic() - self._trusted[1])


def _refuse_foreign(reading: Reading, name: str) -> None:
    """Raise Refused where another controller writes the Secret: the two would undo each other's work for ever."""
    annotations = ((reading.secret or {}).get("metadata") or {}).get("annotations") or {}
    if owner := next((key for key in sorted(annotations) if key.startswith(_FOREIGN)), None):
        message = f"{name}: belongs to another controller (annotation {owner}): mount it, and give its files"
        raise Refused(Reason.NOT_SELF_MANAGED, message)


def _offer(served: Material, view: View, configuration: str) -> Offer:
    if served.leaf is None or served.key is None:
        raise Failed(Reason.INVALID_CERTIFICATE, "there is no certificate yet")
    untrusting = view.untrusting(served)
    details = [view.trouble] if view.trouble else []
    if untrusting:
        details.append(f"no authority of the certificate is in the caBundle of {', '.join(untrusting)}")
    if not view.trust and not view.trouble:
        details.append(f"no webhook is registered by the name {configuration}")
    if served.leaf != view.state.material.leaf:
        details.append("the certificate in the Secret waits until its authority is trusted")
    ends = {"server": served.leaf.not_valid_after_utc}
    if served.issuer:
        ends["ca"] = served.issuer.not_valid_after_utc
    return Offer(
        write_certificates(served.chain),
        write_key(served.key),
        ends,
        trusted=not untrusting and not view.trouble,
        detail="; ".join(details),
        # (what is served leads to one of them, else it would have been replaced)
        authorities=write_certificates(view.state.material.bundle),
    )
