"""The allocation service: the third source of devices, for drivers that write neither metadata nor variables.

It also says whose turn it is where pods share a claim, so a claim named directly is confirmed here whatever source
found its devices.
"""

import random
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from dra.allocation import AllocatedDevice
from dra.answer import read_answer, read_fields
from dra.device import Source
from dra.errors import DravirtError, Failed, Refused
from dra.identity import Identity
from dra.intent import ServiceAddress
from dra.reasons import Reason
from hooksidecar.candidates import Answer, Candidate, Wanted

PATIENCE = 2.5
"""Seconds that one look waits for an answer: a call of virt-launcher has two such looks.

A look-up of a name can take longer than any timeout of ours, so the question goes on beside.
"""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 4.0
_OK, _SERVER_ERROR = 200, 500

Devices = Mapping[str, Sequence[AllocatedDevice]]
"""The pod's devices by pod claim."""


class AllocationService:
    """The source that asks the service at `address`."""

    name = Source.SERVICE

    def __init__(self, address: ServiceAddress, *, ask: Callable[[ServiceAddress], Devices] | None = None) -> None:
        self._address = address
        self._ask = ask or ask_service
        self._asking: _Asking | None = None
        self._pauses = 0
        self._quiet_until = 0.0
        self._said: DravirtError = Failed(Reason.SERVICE_UNREACHABLE, f"{address.url}: no answer yet")

    def find(self, wanted: Sequence[Wanted], taken: Collection[Identity]) -> list[Answer]:  # noqa: ARG002 (protocol)
        """Return an answer for each entry, from one question at most; after an error, none is asked for a while."""
        try:
            devices = self._devices()
        except DravirtError as error:
            return [error] * len(wanted)
        return [_answer(want, devices.get(want.entry.pod_claim)) for want in wanted]

    def _devices(self) -> Devices:
        """Return what the service answers. Raises what it said last while it is left alone."""
        if self._asking is None:
            if time.monotonic() < self._quiet_until:
                raise self._said.with_traceback(None)
            self._asking = _Asking(lambda: self._ask(self._address))
        if not self._asking.is_done(PATIENCE):
            raise Failed(Reason.SERVICE_UNREACHABLE, f"{self._address.url}: no answer yet")
        asking, self._asking = self._asking, None
        try:
            devices = asking.outcome()
        except DravirtError as error:
            self._said = error
            self._quiet_until = time.monotonic() + self._pause()
            raise
        self._pauses = 0
        return devices

    def _pause(self) -> float:
        """Return for how long to be quiet: longer each time, and apart from the pods that started with this one."""
        longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * (1 << self._pauses))
        self._pauses = min(self._pauses + 1, 8)
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 (no secret)


def ask_service(address: ServiceAddress) -> Devices:
    """Return the pod's devices by pod claim. Raises Refused or Failed, in the service's own words where it has any."""
    from hooksidecar.transport import ask  # noqa: PLC0415 (its imports cost memory where there is no service)

    reply = ask(address)
    if reply.status == _OK:
        return read_answer(reply.body, path=address.url)
    raise _refusal(address.url, reply.status, reply.body, retry=reply.retry_after is not None)


def _refusal(url: str, status: int, body: bytes, *, retry: bool) -> DravirtError:
    """Return the error that the service answered with. Where it said none, it is not the service that answered."""
    try:
        fields = read_fields(body, path=url)
        code, message = fields.text("reason"), fields.text("message")
    except Refused:
        # A proxy, or a service that is being replaced.
        return Failed(Reason.SERVICE_UNREACHABLE, f"{url}: answered with status {status} and no reason")
    # A code of a newer release is not known here: its text tells.
    reason = next((known for known in Reason if known == code), Reason.UNRESOLVED)
    later = retry or status >= _SERVER_ERROR
    return (Failed if later else Refused)(reason, f"{status} {code:.60}: {message:.500}")


def _answer(want: Wanted, devices: Sequence[AllocatedDevice] | None) -> Answer:
    if devices is None:
        return Refused(Reason.CLAIM_MISSING, f"the pod has no claim {want.entry.pod_claim!r}")
    own = tuple(Candidate(device) for device in devices if want.takes(device.request))
    if not own:
        there = ", ".join(sorted({device.request for device in devices})) or "none"
        return Refused(Reason.UNKNOWN_REQUEST, f"there is no request {want.entry.request.request!r}, there is {there}")
    return own


class _Asking:
    """A question under way, in a thread that ends with the process."""

    def __init__(self, ask: Callable[[], Devices]) -> None:
        self._done = threading.Event()
        self._devices: Devices = {}
        self._error: DravirtError | None = None
        threading.Thread(target=self._run, args=(ask,), daemon=True).start()

    def is_done(self, seconds: float) -> bool:
        return self._done.wait(seconds)

    def outcome(self) -> Devices:
        if self._error is not None:
            raise self._error
        return self._devices

    def _run(self, ask: Callable[[], Devices]) -> None:
        try:
            self._devices = ask()
        except DravirtError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001 (the outermost loop of the thread: the one who waits must be told)
            self._error = Failed(Reason.INTERNAL_ERROR, f"the question failed: {type(error).__name__} {error}")
        finally:
            self._done.set()
