"""Hook sidecars as real processes, in the folders of a launcher pod, and virt-launcher's side of the hook protocol."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import grpc
from support.claimed import allocated, intent_json, template_folder, write_metadata
from support.domains import GRAPHICS, placeholder, small_domain
from support.nodetree import LAYOUTS, NodeTree, build
from support.waiting import wait_until, whole_lines

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

APIS = {
    "v1alpha1": (v1alpha1_pb2, v1alpha1_pb2_grpc),
    "v1alpha2": (v1alpha2_pb2, v1alpha2_pb2_grpc),
    "v1alpha3": (v1alpha3_pb2, v1alpha3_pb2_grpc),
}
DOMAIN = small_domain(placeholder("gpu0", 0), GRAPHICS)
SERVE = """
import os, sys
from hooksidecar.attachment import Budget
from hooksidecar.main import serve
sys.exit(serve(os.environ, budget=Budget(start={}, call={})))
"""


class Hook:
    """A client of one socket, as virt-launcher is one."""

    def __init__(self, socket: Path, *, authority: str = "localhost") -> None:
        options = [
            ("grpc.default_authority", authority),
            ("grpc.use_local_subchannel_pool", 1),  # no back-off from an earlier server on the socket
            ("grpc.max_receive_message_length", -1),
        ]
        self._channel = grpc.insecure_channel(f"unix:{socket}", options=options)

    def info(self, *, timeout: float = 10) -> info_pb2.InfoResult:
        """Dial, then ask: the socket's file is there a moment before anybody listens on it."""
        grpc.channel_ready_future(self._channel).result(timeout=20)
        return info_pb2_grpc.InfoStub(self._channel).Info(info_pb2.InfoParams(), timeout=timeout)

    def stub(self, version: str = "v1alpha3") -> Any:
        return APIS[version][1].CallbacksStub(self._channel)

    def define(self, domain: bytes = DOMAIN, vmi: bytes = b"{}", *, version: str = "v1alpha3") -> bytes:
        params = APIS[version][0].OnDefineDomainParams(domainXML=domain, vmi=vmi)
        return self.stub(version).OnDefineDomain(params, timeout=60, wait_for_ready=True).domainXML

    def refusal(self, *args: Any, **kwargs: Any) -> tuple[grpc.StatusCode, str]:
        """Return the status with which OnDefineDomain refuses."""
        try:
            self.define(*args, **kwargs)
        except grpc.RpcError as error:
            return error.code(), error.details()
        raise AssertionError("the domain was not refused")

    def close(self) -> None:
        self._channel.close()


@dataclass
class Sidecar:
    """A running sidecar."""

    process: subprocess.Popen[bytes]
    log_file: Path
    sockets: tuple[Path, Path]
    """Flat, as KubeVirt up to 1.5 wants it, and in a folder of its own, as from 1.6 on."""
    hooks: list[Hook] = field(default_factory=list)

    def hook(self, socket: Path | None = None, **more: Any) -> Hook:
        self.hooks.append(Hook(socket or self.sockets[1], **more))
        return self.hooks[-1]

    def wait_ready(self, *, seconds: float = 40) -> None:
        def ready() -> bool:
            assert self.process.poll() is None, f"ended with {self.process.returncode}:\n{self.log()}"
            return all(socket.is_socket() for socket in self.sockets)

        wait_until(ready, seconds=seconds, what="the sidecar's socket")

    def end(self, by: int = signal.SIGTERM, *, seconds: float = 15) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(by)
        return self.process.wait(seconds)

    def log(self) -> str:
        return self.log_file.read_text()

    def entries(self) -> list[dict[str, Any]]:
        """Return what was logged: a JSON object a line."""
        return [json.loads(line) for line in whole_lines(self.log())]

    def seconds_between(self, first: str, last: str) -> float:
        """Return the time from the first message that begins with `first` to the first that does with `last`.

        By the sidecar's own clock: how long an interpreter takes to start is not in it.
        """
        entries = self.entries()
        begin, end = (
            datetime.fromisoformat(next(each["time"] for each in entries if each["message"].startswith(words)))
            for words in (first, last)
        )
        return (end - begin).total_seconds()

    def status(self, name: str) -> int:
        """Return a value of /proc/<pid>/status in KiB."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def _measured() -> dict[str, str]:
    """Return what makes a process of ours report its coverage, where the test run measures it."""
    return {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_PROCESS")}


class Pod:
    """The folders of a launcher pod, on a node of the given layouts."""

    def __init__(self, folder: Path, *layouts: str) -> None:
        self.folder = folder
        self.tree: NodeTree = build(folder / "node", *layouts)
        self.sockets, self.state, self.metadata = folder / "s", folder / "state", folder / "metadata"
        for each in (self.sockets, self.state):
            each.mkdir()
        self.sidecars: list[Sidecar] = []

    def allocate(self, layout: str = "a100-mig-mdev", *, request: str = "vgpu", name: str = "v0") -> Path:
        """Write the metadata of the device of a layout, as allocated for a request of gpu0's claim."""
        device = LAYOUTS[layout].device
        attributes = {"mdevUUID": device} if device.count("-") == 4 else {"pciBusID": device}
        return write_metadata(template_folder(self.metadata, request), allocated(name, **attributes))

    def environment(self, *entries: Mapping[str, Any], **intent: Any) -> dict[str, str]:
        return {
            **_measured(),
            "PATH": os.environ["PATH"],
            "DRAVIRT_INTENT": intent_json(*entries, **intent),
            "DRAVIRT_SOCKET_DIR": str(self.sockets),
            "DRAVIRT_STATE_DIR": str(self.state),
            "DRAVIRT_METADATA_DIR": str(self.metadata),
            "DRAVIRT_ROOT": str(self.folder / "node"),
        }

    def start(
        self,
        environment: Mapping[str, str],
        *,
        budget: tuple[float, float] | None = None,
        code: str | None = None,
        ready: bool = True,
        **popen: Any,
    ) -> Sidecar:
        """Start `python -m hooksidecar`, or one with another budget or of other `code`, and wait for its sockets.

        `budget` is in seconds, at start and per call.
        """
        if budget is not None:
            code = SERVE.format(*budget)
        program = ["-m", "hooksidecar"] if code is None else ["-c", code]
        log = self.folder / f"log{len(self.sidecars)}"
        with log.open("wb") as stderr:
            process = subprocess.Popen([sys.executable, *program], env=environment, stderr=stderr, cwd="/", **popen)
        sockets = (self.sockets / "dravirt.sock", self.sockets / "dravirt" / "dravirt.sock")
        sidecar = Sidecar(process, log, sockets)
        self.sidecars.append(sidecar)
        if ready:
            sidecar.wait_ready()
        return sidecar

    def close(self) -> None:
        for sidecar in self.sidecars:
            for hook in sidecar.hooks:
                hook.close()
            sidecar.process.terminate()
        for sidecar in self.sidecars:
            try:
                sidecar.process.wait(15)
            except subprocess.TimeoutExpired:
                sidecar.process.kill()
                sidecar.process.wait()
            for stream in (sidecar.process.stdout, sidecar.process.stdin):
                if stream:
                    stream.close()
            print(  # noqa: T201 (pytest shows it where a test fails)
                f"sidecar {sidecar.process.pid} ended with {sidecar.process.returncode} and wrote:\n{sidecar.log()}"
            )


@contextlib.contextmanager
def launcher_pod(*layouts: str) -> Iterator[Pod]:
    """Give a pod whose path is short enough for sockets, and end what runs in it."""
    folder = Path(tempfile.mkdtemp(prefix="dravirt-"))
    folder.chmod(0o755)
    pod = Pod(folder, *layouts)
    try:
        yield pod
    finally:
        pod.close()
        shutil.rmtree(folder)
