"""The agent: it asks a source again and again, and hands on each certificate that is new and can be used.

It never gives up and never makes things worse: whatever fails, the last good certificate stays in use.
"""

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from certs.source import Offer, Source
from dra.errors import DravirtError
from dra.reasons import Reason

MAX_PAUSE = 60.0
"""Seconds between two looks at most, after failures."""
_JITTER = 0.2
_END_SECONDS = 5.0
_log = logging.getLogger(__name__)

Swap = Callable[[bytes, bytes], None]
"""Puts a certificate chain and its key, both PEM, to use. Raises Refused or Failed where they cannot be used."""


@dataclass(slots=True)
class Numbers:
    """What an on-call engineer wants to see as metrics."""

    ends: dict[str, float] = field(default_factory=dict)
    """Seconds since 1970 at which the certificate in use (`server`) and its authority (`ca`) end."""
    reloads: int = 0
    """Certificates put to use."""
    failures: int = 0
    """Looks at the source that failed, and certificates that could not be used."""


class Agent:
    """Keeps the certificate in use up to date, on a thread of its own."""

    def __init__(self, source: Source, swap: Swap, interval: float) -> None:
        """Take `interval` in seconds."""
        self.numbers = Numbers()
        self.authorities = ""
        """Those to trust at the moment, PEM, "" where they are not known (yet)."""
        self._source, self._swap, self._interval = source, swap, interval
        self._in_use: tuple[bytes, bytes] | None = None
        self._was_trusted = False
        self._error = self._detail = ""
        self._failed_in_a_row = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="certificates", daemon=True)

    def look(self) -> None:
        """Ask the source once. Raises Refused or Failed; what is in use stays then."""
        try:
            offer = self._source.read()
            self._use(offer)
        except DravirtError:
            self.numbers.failures += 1
            raise
        self.authorities = offer.authorities.decode("ascii", "replace")
        self.numbers.ends = {name: moment.timestamp() for name, moment in offer.ends.items()}
        # Once trusted, it stays ready: a server that API servers may call is not to be taken away from them.
        self._was_trusted = self._was_trusted or offer.trusted
        if offer.detail and offer.detail != self._detail:
            _log.warning("certificates: %s", offer.detail)
        self._detail = offer.detail

    def health(self) -> tuple[bool, str]:
        """Return whether there is a certificate that API servers trust, and what is wrong or worth a look."""
        return self._in_use is not None and self._was_trusted, "; ".join(filter(None, (self._error, self._detail)))

    def start(self) -> None:
        """Look again and again from now on."""
        self._thread.start()

    def stop(self) -> None:
        """End, once a look that is under way is done, or cannot be waited for."""
        self._stop.set()
        self._thread.join(_END_SECONDS)

    def pause(self) -> float:
        """Return the seconds until the next look: twice as many after each failure in a row, never quite the same."""
        longest = max(MAX_PAUSE, self._interval)
        pause = min(self._interval * 2.0 ** min(self._failed_in_a_row, 10), longest)
        return pause * random.uniform(1 - _JITTER, 1)  # noqa: S311 (to part the replicas, not a secret)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._try()
            # (never long: a monotonic clock stands still while a machine sleeps, and certificates do not)
            self._stop.wait(self.pause())

    def _try(self) -> None:
        try:
            self.look()
        except DravirtError as error:
            self._failed(error.message, error.reason)
        except Exception as error:  # noqa: BLE001 (the outermost loop: an agent that ended would let the certificate expire)
            self.numbers.failures += 1
            self._failed(f"{type(error).__name__}: {error}", Reason.INTERNAL_ERROR, exc_info=True)
        else:
            if self._error:
                _log.info("certificates: all is well again")
            self._error, self._failed_in_a_row = "", 0

    def _failed(self, message: str, reason: Reason, *, exc_info: bool = False) -> None:
        self._failed_in_a_row += 1
        if message != self._error:  # once, however long it lasts
            fields = {"reason": reason}
            text = "certificates: the last good one stays in use: %s"
            _log.error(text, message, exc_info=exc_info, extra={"fields": fields})
        self._error = message

    def _use(self, offer: Offer) -> None:
        if self._in_use != (offer.chain, offer.key):
            self._swap(offer.chain, offer.key)
            self._in_use = (offer.chain, offer.key)
            self.numbers.reloads += 1
            _log.info("certificates: one that ends %s is in use", offer.ends["server"].isoformat())
