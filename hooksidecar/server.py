"""The gRPC server that virt-launcher calls, on the sockets where its releases look for it.

Source: KubeVirt pkg/hooks/manager.go.
"""

import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc

from dra.contract import SOCKET_NAME
from dra.errors import DravirtError, Failed
from dra.reasons import Reason
from hooksidecar.api import (
    info_pb2,
    info_pb2_grpc,
    v1alpha1_pb2,
    v1alpha1_pb2_grpc,
    v1alpha2_pb2,
    v1alpha2_pb2_grpc,
    v1alpha3_pb2,
    v1alpha3_pb2_grpc,
)
from hooksidecar.attachment import Attachment

# virt-launcher calls one after the other. The second worker answers Info while the first is looking for devices.
_WORKERS = 2
_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
_MAX_SOCKET_PATH = 107  # bytes of sockaddr_un.sun_path less its end
_MAX_DETAILS = 4000
"""Characters of a status text: the C core drops a status whose headers go beyond 8 KiB."""

_log = logging.getLogger(__name__)


class HookServer:
    """Serves the hook protocol in all its versions.

    KubeVirt up to 1.5 dials each entry of `folder`, from 1.6 on each entry of its sub-folders, so there is a socket in
    both places. A socket file appears a moment before the server answers; virt-launcher takes that for not ready and
    dials again, so no trick is needed to hide it.
    """

    def __init__(self, attachment: Attachment, folder: Path) -> None:
        self._folder = folder / Path(SOCKET_NAME).stem
        self._sockets = (folder / SOCKET_NAME, self._folder / SOCKET_NAME)
        self._server = grpc.server(ThreadPoolExecutor(_WORKERS, thread_name_prefix="hook"), options=_OPTIONS)
        info_pb2_grpc.add_InfoServicer_to_server(_Info(), self._server)
        for api, stubs in _VERSIONS.values():
            stubs.add_CallbacksServicer_to_server(_Callbacks(api, attachment), self._server)

    def start(self) -> None:
        """Bind the sockets and serve. Raises Failed where they cannot be made."""
        # compute runs under uid 107, but perhaps with another group: it connects where it may write to the socket.
        os.umask(0)
        self.remove_sockets()
        with _failing(self._folder):
            self._folder.mkdir(exist_ok=True)
        for socket in self._sockets:
            with _failing(socket):
                self._bind(socket)
        self._server.start()
        _log.info("serving on %s", " and ".join(map(str, self._sockets)))

    def stop(self, grace: float) -> None:
        """Take no more calls, let the running ones end within `grace` seconds, and remove the sockets."""
        self._server.stop(grace).wait()
        self.remove_sockets()

    def remove_sockets(self) -> None:
        """Remove the sockets, whoever made them. Raises Failed where something else is in the way."""
        for socket in self._sockets:
            with _failing(socket):
                socket.unlink(missing_ok=True)

    def _bind(self, socket: Path) -> None:
        if len(os.fsencode(socket)) > _MAX_SOCKET_PATH:
            raise OSError(f"the path is longer than {_MAX_SOCKET_PATH} bytes")
        self._server.add_insecure_port(f"unix:{socket}")


@contextmanager
def _failing(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError) as error:
        raise Failed(Reason.UNWRITABLE, f"cannot serve on {path}: {error}") from error


class _Info:
    """Says what we are, from memory: virt-launcher waits 1 s for it, and panics."""

    def __init__(self) -> None:
        # No Shutdown: the kubelet ends a native sidecar, one that ends by itself is started again.
        # No PreCloudInitIso: virt-launcher asks the first subscriber only.
        point = info_pb2.HookPoint(name="OnDefineDomain", priority=0)
        self._result = info_pb2.InfoResult(name="dravirt", hookPoints=[point], versions=list(_VERSIONS))

    def Info(self, request: object, context: object) -> info_pb2.InfoResult:  # noqa: ARG002, N802 (an rpc's name)
        return self._result


class _Callbacks:
    """The hook points of one version of the protocol; all versions mean the same by them."""

    def __init__(self, api: ModuleType, attachment: Attachment) -> None:
        self._api = api
        self._attachment = attachment

    def OnDefineDomain(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802 (an rpc's name)
        """Answer with the domain that has the devices in it, or with a status that says why not."""
        try:
            return self._api.OnDefineDomainResult(domainXML=self._attachment.define(request.domainXML, request.vmi))
        except DravirtError as error:
            code = grpc.StatusCode.UNAVAILABLE if isinstance(error, Failed) else grpc.StatusCode.FAILED_PRECONDITION
            details = f"dravirt: {error.message} (reason: {error.reason})"
            _log.error("OnDefineDomain refused: %s", error.message, extra={"reason": error.reason})
        except Exception:  # noqa: BLE001 (the outermost loop of a call)
            code, details = grpc.StatusCode.INTERNAL, "dravirt: internal error, see the log of container dravirt-hook"
            _log.exception("OnDefineDomain failed")
        return context.abort(code, _status_text(details))

    def PreCloudInitIso(self, request: Any, context: object) -> Any:  # noqa: ARG002, N802 (an rpc's name)
        """Answer with what came: we do not subscribe, but who asks shall not lose his data."""
        return self._api.PreCloudInitIsoResult(
            cloudInitNoCloudSource=request.cloudInitNoCloudSource, cloudInitData=request.cloudInitData
        )

    def Shutdown(self, request: object, context: object) -> Any:  # noqa: ARG002, N802 (an rpc's name)
        """Answer, and stay: see `_Info`."""
        return self._api.ShutdownResult()


def _status_text(text: str) -> str:
    """Return `text` as a status can carry it: other characters than ASCII would treble in length."""
    return text.encode("ascii", "backslashreplace").decode()[:_MAX_DETAILS]


_VERSIONS: dict[str, tuple[ModuleType, ModuleType]] = {
    "v1alpha3": (v1alpha3_pb2, v1alpha3_pb2_grpc),
    "v1alpha2": (v1alpha2_pb2, v1alpha2_pb2_grpc),
    "v1alpha1": (v1alpha1_pb2, v1alpha1_pb2_grpc),
}
