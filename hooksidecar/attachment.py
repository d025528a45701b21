"""The devices of this pod's VM: found once, verified whenever a domain is defined, and put into it.

What was resolved and verified once stays: a VM that was defined with a device keeps it, whatever sources say later.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dra.device import Device
from dra.errors import DravirtError, Failed, Refused
from dra.intent import Intent
from dra.reasons import Reason
from hooksidecar.candidates import DeviceSource
from hooksidecar.domain import edit_domain
from hooksidecar.resolver import resolve
from hooksidecar.state import State
from hooksidecar.sysfs import HostTree
from hooksidecar.verification import verify

RETRY_INTERVAL = 0.5

Pause = Callable[[float], object]
"""Waits for some seconds, or raises where there is no point in going on."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Budget:
    """Seconds for which devices are looked for before the error is told."""

    start: float = 30.0
    """Before the socket exists: the startup probe holds compute back as long."""
    call: float = 5.0
    """In one OnDefineDomain: virt-handler gives all calls of a define 20 s.

    Source: KubeVirt pkg/virt-handler/cmd-client/client.go, longTimeout.
    """


class Attachment:
    """What one VM gets attached."""

    def __init__(
        self,
        intent: Intent,
        sources: Sequence[DeviceSource],
        tree: HostTree,
        state: State,
        *,
        budget: Budget,
    ) -> None:
        self._intent = intent
        self._sources = sources
        self._tree = tree
        self._state = state
        self._budget = budget
        self._pinned: tuple[Device, ...] | None = None
        self._lock = threading.Lock()

    def recall(self) -> bool:
        """Take the devices that were resolved before a restart; False where none are known."""
        try:
            self._pinned = self._state.load(self._intent)
        except DravirtError as error:
            _log.warning("the state is ignored: %s", error.message, extra={"reason": error.reason})
        if self._pinned is not None:
            _log_devices("devices are known from before the restart", self._pinned)
        return self._pinned is not None

    def prepare(self, *, pause: Pause) -> None:
        """Find the devices before anybody asks for them, or log that it failed: then OnDefineDomain says why.

        Whatever the error is, a retry may mend it: of several metadata files one may come later than the others.
        """
        try:
            self._find(self._budget.start, pause, mends=DravirtError)
        except DravirtError as error:
            _log.error("serving without devices: OnDefineDomain will try again", extra={"reason": error.reason})
        except Exception:  # noqa: BLE001 (the outermost loop of the start: whatever it is, the owner is to hear of it)
            _log.exception("serving without devices: OnDefineDomain will try again")

    def define(self, domain_xml: bytes, vmi_json: bytes) -> bytes:
        """Return the domain with the devices in it. Raises DravirtError, which names the device and what to do."""
        vmi = _read_vmi(vmi_json)
        with self._lock:
            devices = self._verified()
        return edit_domain(domain_xml, devices, mode=self._intent.mode, vmi=vmi)

    def _verified(self) -> tuple[Device, ...]:
        if self._pinned is None:
            # By now nothing comes late that makes a refusal void.
            return self._find(self._budget.call, time.sleep, mends=Failed)
        return verify(self._pinned, self._tree)

    def _find(self, seconds: float, pause: Pause, *, mends: type[DravirtError]) -> tuple[Device, ...]:
        """Return the devices, resolved and verified; from then on they stay.

        Tries again after errors that a retry `mends`, until `seconds` are over, and raises that of the last try.
        """
        end = time.monotonic() + seconds
        said = ""
        while True:
            try:
                return self._find_once()
            except DravirtError as error:
                if error.message != said:
                    _log.warning("not attachable (yet): %s", error.message, extra={"reason": error.reason})
                said = error.message
                if not isinstance(error, mends) or time.monotonic() + RETRY_INTERVAL > end:
                    raise
            pause(RETRY_INTERVAL)

    def _find_once(self) -> tuple[Device, ...]:
        devices = verify(resolve(self._intent, self._sources), self._tree)
        self._pinned = devices
        _log_devices("devices found", devices)
        try:
            self._state.keep(self._intent, devices)
        except DravirtError as error:
            # It costs a restarted sidecar its memory, never the VM its start.
            _log.warning("the state is not kept: %s", error.message, extra={"reason": error.reason})
        return devices


def _log_devices(message: str, devices: Sequence[Device]) -> None:
    _log.info(message, extra={"devices": [device.to_json() for device in devices]})


def _read_vmi(vmi_json: bytes) -> Mapping[str, Any] | None:
    if not vmi_json:
        return None
    try:
        vmi = json.loads(vmi_json)
    except (ValueError, RecursionError) as error:
        raise Refused(Reason.INVALID_VMI, f"the VMI that came with the domain is no JSON: {error}") from error
    if not isinstance(vmi, dict):
        raise Refused(Reason.INVALID_VMI, "the VMI that came with the domain is no JSON object")
    return vmi
