"""Hook sidecars of others, served by this process: what stands before and after ours in a launcher pod."""

import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc
from support.sidecars import APIS

from hooksidecar.api import info_pb2, info_pb2_grpc

Edit = Callable[[bytes], bytes]


class OtherHook:
    """A hook that answers as it is told, and keeps what it was asked."""

    def __init__(
        self,
        socket: Path,
        *,
        versions: tuple[str, ...] = ("v1alpha3",),
        points: dict[str, int] | None = None,
        edit: Edit = bytes,
        info_takes: float = 0,
    ) -> None:
        """Serve on `socket`, with `points` and their priorities; `edit` makes the answers of OnDefineDomain."""
        self.calls: list[tuple[str, str, bytes]] = []
        """Version, method and domain of each call."""
        self._info_takes = info_takes
        hook_points = [info_pb2.HookPoint(name=name, priority=priority) for name, priority in (points or _ALL).items()]
        self._result = info_pb2.InfoResult(name=socket.name, hookPoints=hook_points, versions=versions)
        self._server = grpc.server(ThreadPoolExecutor(2))
        info_pb2_grpc.add_InfoServicer_to_server(self, self._server)
        for version, (messages, stubs) in APIS.items():
            stubs.add_CallbacksServicer_to_server(_Callbacks(self, version, messages, edit), self._server)
        socket.parent.mkdir(parents=True, exist_ok=True)
        self._server.add_insecure_port(f"unix:{socket}")
        self._server.start()

    def Info(self, _request: object, _context: object) -> info_pb2.InfoResult:  # noqa: N802 (an rpc's name)
        time.sleep(self._info_takes)
        return self._result

    def stop(self) -> None:
        """Stop at once."""
        self._server.stop(0).wait()


_ALL = {"OnDefineDomain": 0, "Shutdown": 0}


class _Callbacks:
    def __init__(self, hook: OtherHook, version: str, messages: ModuleType, edit: Edit) -> None:
        self._hook, self._version, self._messages, self._edit = hook, version, messages, edit

    def OnDefineDomain(self, request: Any, _context: object) -> Any:  # noqa: N802 (an rpc's name)
        self._hook.calls.append((self._version, "OnDefineDomain", request.domainXML))
        return self._messages.OnDefineDomainResult(domainXML=self._edit(request.domainXML))

    def PreCloudInitIso(self, request: Any, _context: object) -> Any:  # noqa: N802 (an rpc's name)
        self._hook.calls.append((self._version, "PreCloudInitIso", b""))
        return self._messages.PreCloudInitIsoResult(cloudInitData=request.cloudInitData)

    def Shutdown(self, _request: Any, _context: object) -> Any:  # noqa: N802 (an rpc's name)
        self._hook.calls.append((self._version, "Shutdown", b""))
        return self._messages.ShutdownResult()


@contextlib.contextmanager
def other_hook(socket: Path, **options: Any) -> Iterator[OtherHook]:
    """Give a hook that serves on `socket` until the end."""
    hook = OtherHook(socket, **options)
    try:
        yield hook
    finally:
        hook.stop()
