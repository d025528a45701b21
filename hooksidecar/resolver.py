"""Which device is whose: from an intent and what sources say to exactly the devices asked for, or to an error.

The first source that knows the devices of an entry decides. Nothing is guessed: another number of devices than asked
for, two entries with one device or a malformed attribute is refused. Where there is an allocation service, a claim that
pods may share is attached only if the service says that it is this pod's turn.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from dra.allocation import AllocatedDevice
from dra.attributes import AttributeTable, identity_of, profile_of
from dra.device import Device, Source, check_unique
from dra.errors import DravirtError, Failed, Refused
from dra.identity import Identity
from dra.intent import ClaimedRequest, Intent
from dra.names import is_attribute_name
from dra.reasons import Reason
from hooksidecar.candidates import Answer, Candidate, DeviceSource, Wanted
from hooksidecar.unresolved import label, unconfirmed, unresolved


def resolve(intent: Intent, sources: Sequence[DeviceSource]) -> tuple[Device, ...]:
    """Return the devices of the VM, in the order of the intent, as the sources name them: the node adds what it knows.

    Raises Refused where what the sources say is wrong, Failed where none knows a device (yet). The text names the
    entry, its claim and request, what each source said, and what to do.
    """
    searches = [_Search(entry, must_confirm=must_confirm(intent, entry)) for entry in intent.devices]
    for source in sources:
        pending = [search for search in searches if search.is_for(source.name)]
        taken = frozenset(device.identity for search in searches for device in search.devices)
        answers = source.find([search.wanted() for search in pending], taken) if pending else []
        for search, answer in zip(pending, answers, strict=True):
            search.hear(source.name, answer, intent.attributes)
    for search in searches:
        if search.devices and search.must_confirm:
            raise unconfirmed(search.entry, search.heard)
    missing = {search.entry.request.name: search for search in searches if not search.devices}
    if missing:
        first, *others = missing
        raise unresolved(missing[first].entry, missing[first].heard, others=others)
    devices = tuple(device for search in searches for device in search.devices)
    check_unique(devices)
    return devices


def must_confirm(intent: Intent, entry: ClaimedRequest) -> bool:
    """True for a claim named directly where there is a service: metadata tells a device, not whose turn it is."""
    return intent.service is not None and entry.request.claim is not None


@dataclass(slots=True)
class _Search:
    """One entry on its way through the sources."""

    entry: ClaimedRequest
    must_confirm: bool = False
    """The service has not said yet that the claim is this pod's."""
    devices: tuple[Device, ...] = ()
    allocated: tuple[AllocatedDevice, ...] = ()
    heard: list[tuple[Source, DravirtError]] = field(default_factory=list)

    def wanted(self) -> Wanted:
        return Wanted(self.entry, self.allocated)

    def is_for(self, source: Source) -> bool:
        """True if the source is to be asked about the entry."""
        return not self.devices or (self.must_confirm and source is Source.SERVICE)

    def hear(self, source: Source, answer: Answer, table: AttributeTable) -> None:
        """Take the devices that the source names; where it does not know them all, remember what it said."""
        if isinstance(answer, DravirtError):
            self.heard.append((source, answer))
            return
        if source is Source.SERVICE:
            self.must_confirm = False
        if self.devices:
            return  # an earlier source named them: it knows what was prepared
        _check_count(self.entry, source, answer)
        identities = [_identity(self.entry, candidate, table) for candidate in answer]
        if None in identities:
            self.allocated = tuple(candidate.allocated for candidate in answer if candidate.allocated)
            self.heard.append((source, _no_identity(answer, identities)))
            return
        pairs = [(candidate, identity) for candidate, identity in zip(answer, identities, strict=True) if identity]
        pairs.sort(key=lambda pair: _order(*pair))
        self.devices = tuple(
            _device(self.entry, name, candidate, identity, source=source, table=table)
            for name, (candidate, identity) in zip(self.entry.request.device_names, pairs, strict=True)
        )


def _check_count(entry: ClaimedRequest, source: Source, candidates: Sequence[Candidate]) -> None:
    count = entry.request.count
    if len(candidates) != count:
        devices = ", ".join(str(candidate.allocated or candidate.identity) for candidate in candidates) or "none"
        message = (
            f"{label(entry)}: count is {count}, but {source} names {len(candidates)} device(s): {devices}. "
            "Let the count of the entry in dravirt.io/devices equal what the request of the claim yields"
        )
        raise Refused(Reason.WRONG_COUNT, message)


def _identity(entry: ClaimedRequest, candidate: Candidate, table: AttributeTable) -> Identity | None:
    if candidate.identity or candidate.allocated is None:
        return candidate.identity
    try:
        return identity_of(candidate.allocated, table)
    except Refused as error:
        raise Refused(error.reason, f"{label(entry)}: {error.message}") from error


def _no_identity(candidates: Iterable[Candidate], identities: Iterable[Identity | None]) -> DravirtError:
    silent = [candidate.allocated for candidate, identity in zip(candidates, identities, strict=True) if not identity]
    devices = "; ".join(f"{device} with attributes {_attribute_names(device)}" for device in silent if device)
    # A driver may write the device first and its attributes later.
    return Failed(Reason.NO_IDENTITY, f"no attribute holds an mdev UUID or a PCI address: {devices}")


def _attribute_names(device: AllocatedDevice) -> str:
    return ", ".join(sorted(filter(is_attribute_name, device.attributes))[:32]) or "none"


def _order(candidate: Candidate, identity: Identity) -> tuple[tuple[str, ...], str]:
    """Order the devices of an entry, whichever source names them: by allocation, then by identity."""
    return (candidate.allocated.sort_key if candidate.allocated else ()), str(identity)


def _device(
    entry: ClaimedRequest,
    name: str,
    candidate: Candidate,
    identity: Identity,
    *,
    source: Source,
    table: AttributeTable,
) -> Device:
    request, allocated = entry.request, candidate.allocated
    device = Device(name, identity, display=request.display, ramfb=request.ramfb, source=source)
    if allocated is None:
        return replace(device, request=request.request)
    return replace(
        device,
        request=allocated.request,
        driver=allocated.driver,
        pool=allocated.pool,
        device=allocated.device,
        profile=profile_of(allocated, table),
    )
