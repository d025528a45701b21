"""The API server as something that fails: it is killed, stands still, or serves other versions of DRA."""

import json
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from cluster.api import Api, ApiError
from cluster.network import API_BESIDE, HOST
from cluster.process import Process
from cluster.stack import Stack

GROUP = "resource.k8s.io"
VERSIONS = ("v1", "v1beta2", "v1beta1")


class ApiServer:
    """The kube-apiserver of a stack. etcd goes on, so what it held is there again."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._process = stack.control_plane.processes["kube-apiserver"]
        self._argv = self._process._popen.args

    def kill(self) -> None:
        """End it at once, with all its connections."""
        self._process.kill()

    def start(self, *versions: str) -> None:
        """Start it again and wait until it serves `versions` of resource.k8s.io, all three where none are named.

        Without v1 it never reports ready, since it has informers of its own for it, and serves all the same.
        """
        wanted = versions or VERSIONS
        self._process = self._started("kube-apiserver", wanted, self._stack.api)

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Let it take connections and do nothing for a while."""
        self._process._popen.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.go_on()

    def go_on(self) -> None:
        """End its standing still; where it does not, nothing happens."""
        self._process._popen.send_signal(signal.SIGCONT)

    @contextmanager
    def serving_only(self, version: str) -> Iterator[None]:
        """Let it serve one version of resource.k8s.io for a while."""
        self.kill()
        self.start(version)
        try:
            yield
        finally:
            self.kill()
            self.start()

    @contextmanager
    def beside(self, version: str, user: str) -> Iterator[Path]:
        """Start another one, for the same cluster, that serves one version of resource.k8s.io alone.

        Give the kubeconfig with which `user` asks it: all others go on with the first.
        """
        plane = self._stack.control_plane
        url = f"https://{HOST}:{API_BESIDE}"
        config = json.loads(plane.kubeconfig(user).read_text())
        config["clusters"][0]["cluster"]["server"] = url
        path = plane.folder / f"{version}.kubeconfig"
        path.write_text(json.dumps(config))
        api = Api(url, self._stack.api.token, plane.authority.pair.certificate)
        # The Service of the API server stays with the first.
        flags = [f"--secure-port={API_BESIDE}", "--endpoint-reconciler-type=none"]
        process = self._started(f"kube-apiserver-{version}", (version,), api, *flags)
        try:
            yield path
        finally:
            process.kill()
            api.close()

    def _started(self, name: str, versions: Sequence[str], api: Api, *flags: str) -> Process:
        served = ",".join(f"{GROUP}/{each}={str(each in versions).lower()}" for each in VERSIONS)
        argv = [word for word in self._argv if not word.startswith("--runtime-config")]
        process = self._stack.processes.start(name, [*argv, f"--runtime-config={served}", *flags])
        process.wait_until(lambda: _serves(api, versions), seconds=90, what=f"serving {', '.join(versions)}")
        return process


def _serves(api: Api, versions: Sequence[str]) -> bool:
    with suppress(ApiError, httpx.TransportError):
        found = api.request("GET", f"/apis/{GROUP}")["versions"]
        is_ready = "v1" not in versions or api.request("GET", "/readyz") == "ok"
        return is_ready and {each["version"] for each in found} == set(versions)
    return False
