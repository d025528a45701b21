"""Serve as the hook sidecar of one virt-launcher pod: find the devices, then answer until told to stop.

The tries before serving have a budget of 30 s. Then it serves in any case: a reason that OnDefineDomain answers reaches
the VM's owner, a pod stuck in Init tells nothing. It ends by itself only where it cannot serve at all.

The environment says everything; the webhook sets it:
  DRAVIRT_INTENT        what to attach, as JSON
  DRAVIRT_SOCKET_DIR    where virt-launcher looks for sockets (default /var/run/kubevirt-hooks)
  DRAVIRT_STATE_DIR     what survives a restart (default /var/lib/dravirt)
  DRAVIRT_ROOT          what holds sys and dev (default /)
  DRAVIRT_METADATA_DIR  where DRA drivers put the metadata (default /var/run/kubernetes.io/dra-device-attributes)
  DRAVIRT_LOG_LEVEL     debug, info (default), warning or error

Example: see what a sidecar says about an intent, without a pod.
  DRAVIRT_INTENT="$(cat intent.json)" DRAVIRT_SOCKET_DIR=/tmp DRAVIRT_STATE_DIR=/tmp dravirt sidecar
"""

import logging
import os
import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dra.errors import DravirtError, Failed
from hooksidecar import log
from hooksidecar.attachment import Attachment, Budget
from hooksidecar.server import HookServer
from hooksidecar.settings import Settings
from hooksidecar.sources import device_sources
from hooksidecar.state import State
from hooksidecar.sysfs import HostTree

if TYPE_CHECKING:
    import argparse  # 1 MB that `python -m hooksidecar` does without

GRACE = 8.0
"""Seconds that a running call has on the way out: an OnDefineDomain takes 5 s at most, and an edit."""

_BUDGET = Budget()
_STOP = (signal.SIGTERM, signal.SIGINT)

_log = logging.getLogger(__name__)


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """`dravirt sidecar` takes no arguments."""


def run(args: "argparse.Namespace") -> int:  # noqa: ARG001 (what every command is given)
    """Serve with the environment of this process."""
    return serve(os.environ)


def serve(environ: Mapping[str, str], *, budget: Budget = _BUDGET) -> int:
    """Run the sidecar and return its exit code: 0 after SIGTERM, 1 for a broken intent, 3 where it cannot serve."""
    # Blocked, not handled: the main thread takes them where it waits, all others (gRPC's) inherit the mask. It also
    # makes them reach us as process 1 of the container, where they are ignored otherwise.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
    log.configure(environ.get("DRAVIRT_LOG_LEVEL") or "info")
    try:
        _serve(Settings.of(environ), environ, budget)
    except DravirtError as error:
        _log.error("%s", error.message, extra={"reason": error.reason})
        return 3 if isinstance(error, Failed) else 1
    return 0


def _serve(settings: Settings, environ: Mapping[str, str], budget: Budget) -> None:
    sources = device_sources(settings.intent, metadata_dir=settings.metadata_dir, environ=environ)
    tree, state = HostTree(settings.root), State(settings.state_dir)
    attachment = Attachment(settings.intent, sources, tree, state, budget=budget)
    server = HookServer(attachment, settings.socket_dir)
    server.remove_sockets()  # a killed process left them: the startup probe would take us for ready
    if not attachment.recall():
        attachment.prepare(pause=_pause)
    server.start()
    stopped_by = signal.sigwait(_STOP)
    _log.info("stopping: %s", signal.Signals(stopped_by).name)
    server.stop(GRACE)


def _pause(seconds: float) -> None:
    """Wait, or exit where we are told to stop."""
    if signal.sigtimedwait(_STOP, seconds):
        raise SystemExit(0)
