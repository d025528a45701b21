"""A stand-in for virt-launcher: how each line of KubeVirt releases finds its hook sidecars and calls them.

    launcher = Launcher(folder, RELEASES["v1.8"])
    launcher.collect(expected=1, timeout=10)      # Panic: the pod fails
    launcher.sync(domain, vmi)                    # SyncError: virt-handler shows it and calls again
    launcher.defined                              # what libvirt has

Real gRPC on real sockets; libvirt and KubeVirt's Go structs are played (`support.passes`).
Source: KubeVirt pkg/hooks/manager.go, pkg/util/net/grpc/grpc.go, cmd/virt-launcher/virt-launcher.go,
pkg/virt-launcher/virtwrap/manager.go and live-migration-target.go, of v1.1.1, v1.5.3, v1.6.6, v1.8.4 and v1.9.0.
"""

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import grpc
from support.passes import add_root_ports, after_libvirt, after_structs, with_placeholder_nics
from support.sidecars import APIS

from hooksidecar.api import info_pb2, info_pb2_grpc

DIAL = 2.0
"""Seconds until a dial is given up: the socket is not ready yet."""
INFO = 1.0
"""Seconds that virt-launcher waits for Info."""
CALL = 60.0
SYNC = 20.0
"""Seconds that virt-handler waits for one sync, with all its calls. Source: pkg/virt-handler/cmd-client/client.go."""
NEWEST_FIRST = ("v1alpha3", "v1alpha2", "v1alpha1")


@dataclass(frozen=True, slots=True)
class Release:
    """What differs between the lines of KubeVirt releases."""

    name: str
    nested: bool
    """Sockets are looked for in the sub-folders of the shared folder, not in it."""
    period: float
    """Seconds between two scans."""
    ticks: bool
    """The period runs from scan to scan, not from the end of one to the start of the next."""
    versions: tuple[str, ...] = NEWEST_FIRST
    third_pass: bool = True
    """Empty root ports for hot-plugging are added in a pass of their own."""
    empty_type: bool = False
    """The structs write the type of an address that has none, as an empty one."""
    authority: str | None = "localhost"
    """None: the path of the socket."""


RELEASES = {
    release.name: release
    for release in (
        Release(
            "v1.0",
            nested=False,
            period=1,
            ticks=False,
            versions=NEWEST_FIRST[1:],
            third_pass=False,
            empty_type=True,
            authority=None,
        ),
        Release("v1.5", nested=False, period=1, ticks=False, third_pass=False, empty_type=True),
        Release("v1.6", nested=True, period=1, ticks=False, empty_type=True),
        Release("v1.8", nested=True, period=0.3, ticks=True),
        Release("v1.9", nested=True, period=0.3, ticks=True),
    )
}


class Fault(StrEnum):
    """Why virt-launcher panics before it has a domain."""

    TIMEOUT = "timeout"
    INFO = "info"
    VERSION = "version"
    FOLDER = "folder"


class Panic(Exception):
    """virt-launcher ends, and with it the VMI: its pod is not restarted."""

    def __init__(self, fault: Fault, message: str) -> None:
        super().__init__(f"{fault}: {message}")
        self.fault = fault


class SyncError(Exception):
    """A sync failed: virt-handler puts the text into the VMI's Synchronized condition, and tries again."""

    def __init__(self, text: str, code: grpc.StatusCode | None = None) -> None:
        super().__init__(text)
        self.text, self.code = text, code


@dataclass(frozen=True, slots=True)
class Callback:
    """A sidecar that was accepted, in the version that both sides know."""

    socket: Path
    version: str


class HookManager:
    """KubeVirt's hook manager: which sidecars there are, and the calls to them.

    It waits longer for Info than virt-launcher, as the machine of a test may be busy, unless `info` is INFO.
    """

    def __init__(self, folder: Path, release: Release, *, info: float = 10) -> None:
        self.folder, self.release, self.info = folder, release, info
        self.callbacks: dict[str, list[Callback]] = {}

    def collect(self, expected: int, timeout: float) -> None:
        """Wait for `expected` sidecars. Raises Panic.

        A socket is known by its file name alone. Without any in the folder, releases up to 1.5 wait for ever: here one
        gives up after twice the `timeout`.
        """
        end = time.monotonic() + timeout
        found: dict[str, list[Callback]] = {}
        accepted: set[str] = set()
        while len(accepted) < expected:
            started = time.monotonic()
            for path in self._sockets():
                if not self.release.nested and time.monotonic() > end:
                    raise Panic(Fault.TIMEOUT, "not all sockets appeared")
                if path.name not in accepted and self._accept(path, found):
                    accepted.add(path.name)
            if time.monotonic() > (end if self.release.nested else end + timeout):
                raise Panic(Fault.TIMEOUT, "not all sockets appeared")
            spent = time.monotonic() - started if self.release.ticks else 0
            time.sleep(max(0, self.release.period - spent))
        self.callbacks = found

    def _sockets(self) -> Iterator[Path]:
        """Yield each entry that is dialled, in the order of the names."""
        for entry in _entries(self.folder):
            if not self.release.nested:
                yield Path(entry.path)
            elif entry.is_dir(follow_symlinks=False):
                yield from (Path(sub.path) for sub in _entries(entry.path) if not sub.is_dir(follow_symlinks=False))

    def _accept(self, socket: Path, found: dict[str, list[Callback]]) -> bool:
        """Ask what listens on the socket, and note the hook points it subscribes to. False: it is not ready."""
        try:
            with self._dial(socket) as channel:
                info = info_pb2_grpc.InfoStub(channel).Info(info_pb2.InfoParams(), timeout=self.info)
        except grpc.FutureTimeoutError:
            return False
        except grpc.RpcError as error:
            raise Panic(Fault.INFO, f"{socket}: {error.code()}") from error
        version = next((version for version in self.release.versions if version in info.versions), None)
        if version is None:
            raise Panic(Fault.VERSION, f"{socket} has {list(info.versions)}")
        for point in info.hookPoints:
            found.setdefault(point.name, []).append(Callback(socket, version))
        return True

    def on_define_domain(self, domain: bytes, vmi: bytes) -> bytes:
        """Return the domain after all hooks, each of which is given the answer of the one before."""
        for callback in self.callbacks.get("OnDefineDomain", []):
            messages, _ = APIS[callback.version]
            params = messages.OnDefineDomainParams(domainXML=domain, vmi=vmi)
            domain = self._call(callback, "OnDefineDomain", params).domainXML
        return domain

    def shutdown(self) -> None:
        """Tell those that subscribed, in v1alpha3, that the VM has ended."""
        for callback in self.callbacks.get("Shutdown", []):
            if callback.version == "v1alpha3":
                self._call(callback, "Shutdown", APIS["v1alpha3"][0].ShutdownParams())

    def _call(self, callback: Callback, method: str, params: Any) -> Any:
        stubs = APIS[callback.version][1]
        try:
            with self._dial(callback.socket) as channel:
                return getattr(stubs.CallbacksStub(channel), method)(params, timeout=CALL)
        except grpc.FutureTimeoutError as error:
            raise SyncError(f"context deadline exceeded: {callback.socket}") from error
        except grpc.RpcError as error:
            raise SyncError(error.details(), error.code()) from error

    @contextlib.contextmanager
    def _dial(self, socket: Path) -> Iterator[grpc.Channel]:
        """Give a new connection that is ready. Raises grpc.FutureTimeoutError."""
        options = [
            ("grpc.default_authority", self.release.authority or str(socket)),
            ("grpc.use_local_subchannel_pool", 1),  # no back-off from an earlier server on the socket
        ]
        with grpc.insecure_channel(f"unix:{socket}", options=options) as channel:
            grpc.channel_ready_future(channel).result(timeout=DIAL)
            yield channel


def _entries(folder: os.PathLike[str] | str) -> Iterable[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise Panic(Fault.FOLDER, str(error)) from error


@dataclass
class Launcher:
    """One virt-launcher, and of libvirt the domain that it has."""

    folder: Path
    release: Release
    sync_budget: float = SYNC
    defined: bytes | None = None
    """The domain as it was last defined."""
    passes: list[tuple[bytes, bytes]] = field(default_factory=list)
    """What the hooks were given and what came back, pass by pass."""

    def __post_init__(self) -> None:
        self.hooks = HookManager(self.folder, self.release)

    def collect(self, expected: int, *, timeout: float = 30) -> None:
        """Wait for the sidecars, as virt-launcher does before all else. Raises Panic."""
        self.hooks.collect(expected, timeout)

    def sync(self, domain: bytes, vmi: bytes = b"{}") -> bytes:
        """Define the domain, unless libvirt has one, and return what libvirt has. Raises SyncError.

        A domain that an earlier pass defined is there, even if a later one failed.
        """
        started = time.monotonic()
        if self.defined is None:
            self._define_in_passes(domain, vmi)
        if time.monotonic() - started > self.sync_budget:
            raise SyncError("DeadlineExceeded")
        assert self.defined is not None
        return self.defined

    def prepare_target(self, domain: bytes, vmi: bytes = b"{}") -> None:
        """Call the hooks as on the target of a migration: what they answer is thrown away. Raises SyncError."""
        self.hooks.on_define_domain(domain, vmi)

    def _define_in_passes(self, wanted: bytes, vmi: bytes) -> None:
        """Define what the hooks make of the domain, again after each change that follows from the one before."""
        first = with_placeholder_nics(wanted)
        if first is not None:
            answer = self._define(first, vmi)
            wanted = after_libvirt(wanted, answer, empty_type=self.release.empty_type)
        answer = self._define(wanted, vmi)
        if self.release.third_pass:
            self._define(add_root_ports(after_structs(answer, empty_type=self.release.empty_type)), vmi)

    def _define(self, given: bytes, vmi: bytes) -> bytes:
        answer = self.hooks.on_define_domain(given, vmi)
        self.passes.append((given, answer))
        self.defined = answer
        return answer


def start_vmi(launcher: Launcher, domain: bytes, vmi: bytes = b"{}", *, seconds: float = 30) -> list[str]:
    """Sync as virt-handler does, with a pause after each failure, until the domain is defined.

    Returns the texts of the failures, which the VMI's owner saw meanwhile.
    """
    end = time.monotonic() + seconds
    said: list[str] = []
    while True:
        try:
            launcher.sync(domain, vmi)
        except SyncError as error:
            said.append(error.text)
            assert time.monotonic() < end, f"not defined in {seconds} s: {said}"
            time.sleep(0.2)
        else:
            return said
