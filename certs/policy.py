"""How long certificates live, and how long a rotation waits between its steps."""

import datetime as dt
from dataclasses import dataclass

from dra.errors import Refused
from dra.reasons import Reason

FOLLOW = 2
"""Propagation times within which every replica that runs takes a new certificate: it waits one, and then looks."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Lifetimes and waits, of days or of seconds. Raises Refused where a rotation could not end well."""

    authority_life: dt.timedelta = dt.timedelta(days=365)
    leaf_life: dt.timedelta = dt.timedelta(days=30)
    overlap: dt.timedelta = dt.timedelta(days=30)
    """How long the old authority stays trusted. Not shorter than `leaf_life`, it covers replicas that hear nothing."""
    propagation: dt.timedelta = dt.timedelta(minutes=2)
    """How long until every API server uses a changed caBundle."""
    interval: dt.timedelta = dt.timedelta(seconds=10)
    """How often a replica looks."""

    def __post_init__(self) -> None:
        """Refuse what cannot work, in the terms of the command's options."""
        if self.interval <= dt.timedelta():
            raise _refuse("the interval must be more than nothing")
        if self.propagation < 2 * self.interval:
            raise _refuse("the propagation time must be at least twice the interval")
        if self.leaf_life < 3 * FOLLOW * self.propagation:
            # Else a renewal would come before the certificate of the renewal before it has reached every replica.
            raise _refuse(f"the certificate's lifetime must be at least {3 * FOLLOW} times the propagation time")
        if self.overlap < FOLLOW * self.propagation:
            raise _refuse(f"the overlap must be at least {FOLLOW} times the propagation time")
        if self.authority_life < 3 * (self.propagation + self.overlap):
            raise _refuse(
                "the authority's lifetime must be at least 3 times the overlap and the propagation time together: "
                "the last third of it is for its successor"
            )


def _refuse(message: str) -> Refused:
    return Refused(Reason.INVALID_CONFIGURATION, message)
