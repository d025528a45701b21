"""The environment that a driver's CDI spec gives the container: the second source of devices.

A variable says which devices there are, not for which request. So it counts only where nothing is left to guess.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from dra.contract import PLACEHOLDER_ENV
from dra.device import Source
from dra.errors import DravirtError, Refused
from dra.identity import Identity, MdevUUID, PciAddress
from dra.reasons import Reason
from hooksidecar.candidates import Answer, Candidate, Wanted

# The names that KubeVirt's device plugin contract gives such variables; some DRA drivers use them as well.
# Source: KubeVirt staging/src/kubevirt.io/api/core/v1/types.go.
_MDEV_PREFIX = "MDEV_PCI_RESOURCE_"
_PCI_PREFIX = "PCI_RESOURCE_"


class Environment:
    """The source that reads variables: those of KubeVirt's contract, and those configured for a driver."""

    name = Source.ENVIRONMENT

    def __init__(self, variables: Mapping[str, str], configured: Mapping[str, Sequence[str]]) -> None:
        own = {name for names in configured.values() for name in names}
        self._variables = {
            name: value
            for name, value in variables.items()
            if name in own or (name.startswith((_MDEV_PREFIX, _PCI_PREFIX)) and name != PLACEHOLDER_ENV)
        }
        self._configured = {
            driver: [name for name in names if name in self._variables] for driver, names in configured.items()
        }

    def find(self, wanted: Sequence[Wanted], taken: Collection[Identity]) -> list[Answer]:
        """Return an answer for each entry: first by its driver's own variables, then for the one entry that is left."""
        answers = [self._of_driver(want, wanted, taken) for want in wanted]
        found = [answer for answer in answers if isinstance(answer, tuple)]
        used = {*taken, *(each.identity for candidates in found for each in candidates if each.identity)}
        left = [want for want, answer in zip(wanted, answers, strict=True) if answer not in found]
        return [
            self._of_the_last(want, left, used) if answer is None else answer
            for want, answer in zip(wanted, answers, strict=True)
        ]

    def _of_driver(self, want: Wanted, wanted: Sequence[Wanted], taken: Collection[Identity]) -> Answer | None:
        """Answer from the variables configured for the entry's drivers, None where none is set."""
        names = self._names(_drivers(want))
        if not names:
            return None
        sharing = [other for other in wanted if _drivers(other) & _drivers(want)]
        return self._answer(want, sharing, names, taken)

    def _of_the_last(self, want: Wanted, left: Sequence[Wanted], taken: Collection[Identity]) -> Answer:
        """Answer from the variables of KubeVirt's contract, and from all configured ones where no driver is known."""
        own = {name for names in self._configured.values() for name in names}
        names = [name for name in self._variables if name not in own or not want.allocated]
        if not names:
            return Refused(
                Reason.UNRESOLVED, f"no variable {_MDEV_PREFIX}* or {_PCI_PREFIX}* or of the configured names"
            )
        return self._answer(want, left, names, taken)

    def _names(self, drivers: Iterable[str]) -> list[str]:
        return sorted({name for driver in drivers for name in self._configured.get(driver, ())})

    def _answer(
        self, want: Wanted, sharing: Sequence[Wanted], names: Sequence[str], taken: Collection[Identity]
    ) -> Answer:
        """Answer with the values of the variables `names`, if there is no other way to share them out."""
        try:
            identities = {identity for name in names for identity in _identities(name, self._variables[name])}
        except DravirtError as error:
            return error
        free = sorted(identities.difference(taken), key=str)
        count = want.entry.request.count
        if len(sharing) == 1 and len(free) == count:
            return _candidates(want, free)
        entries = ", ".join(f"{other.entry.request.name} (count {other.entry.request.count})" for other in sharing)
        message = f"{', '.join(names)}: {len(free)} device(s) for {entries}"
        return Refused(Reason.AMBIGUOUS_ENVIRONMENT, message)


def _candidates(want: Wanted, identities: Sequence[Identity]) -> Answer:
    # With more than one, nothing tells which identity is which allocated device.
    allocated = want.allocated[0] if len(want.allocated) == len(identities) == 1 else None
    return tuple(Candidate(allocated, identity) for identity in identities)


def _drivers(want: Wanted) -> set[str]:
    return {device.driver for device in want.allocated}


def _identities(name: str, value: str) -> list[Identity]:
    """Return the devices in the comma separated `value`, without placeholders. Raises Refused."""
    texts = [text.strip() for text in value.split(",")]
    identities = [_identity(name, text) for text in texts if text]
    return [each for each in identities if not (isinstance(each, MdevUUID) and each.is_placeholder)]


def _identity(name: str, text: str) -> Identity:
    # A configured name tells nothing: a PCI address holds a colon in every spelling, a UUID never.
    is_address = ":" in text if not name.startswith((_MDEV_PREFIX, _PCI_PREFIX)) else name.startswith(_PCI_PREFIX)
    try:
        return PciAddress.parse(text) if is_address else MdevUUID.parse(text)
    except ValueError as error:
        raise Refused(Reason.INVALID_ENVIRONMENT, str(error), path=f"variable {name}") from error
