"""An API server that keeps one Secret and two webhook configurations: real TLS and HTTP, versions, refusals."""

import copy
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from support.simulatedcluster import Cluster, patched

from certs.store import Conflict
from cli.throwaway import issue

TOKEN = "an-administrators"
_KINDS = {
    "mutatingwebhookconfigurations": "MutatingWebhookConfiguration",
    "validatingwebhookconfigurations": "ValidatingWebhookConfiguration",
}


class CertServer:
    """A server on a free port of loopback, for `with`; `cluster` holds what it serves."""

    def __init__(self, folder: Path) -> None:
        self.cluster = Cluster()
        self.refused: dict[tuple[str, str], int] = {}
        """The status for a method and a part of the path, instead of an answer."""
        self.asked: list[tuple[str, str]] = []
        self.lock = threading.Lock()
        folder.mkdir(exist_ok=True)
        self._folder, pair = folder, issue(folder)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.api = self
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(poll_interval=0.05), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig that leads here."""
        path = self._folder / "kubeconfig"
        url = f"https://127.0.0.1:{self._server.server_port}"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "c", "cluster": {"server": url, "certificate-authority": str(self._folder / "ca.crt")}}
            ],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path.write_text(json.dumps(config))
        return path

    def answer(self, method: str, path: str, body: Any) -> tuple[int, dict[str, Any]]:
        """Return status and object."""
        self.asked.append((method, path))
        for (refused, part), status in self.refused.items():
            if refused == method and part in path:
                return _status(status, "refused by the test")
        with self.lock:
            try:
                return self._secret(method, path, body) if "/secrets" in path else self._webhooks(method, path, body)
            except Conflict as conflict:
                return _status(409, conflict.message)

    def _secret(self, method: str, path: str, body: Any) -> tuple[int, dict[str, Any]]:
        cluster = self.cluster
        if method == "POST":
            if cluster.secret is not None:
                return _status(409, "it is there")
            cluster.secret = {**body, "metadata": {**body["metadata"], "resourceVersion": cluster.version()}}
        elif cluster.secret is None:
            return _status(404, f"{path} not found")
        elif method == "PATCH":
            cluster.secret = patched(cluster.secret, body, cluster.version())
        return 200, copy.deepcopy(cluster.secret)

    def _webhooks(self, method: str, path: str, body: Any) -> tuple[int, dict[str, Any]]:
        kind = next(kind for plural, kind in _KINDS.items() if plural in path)
        there = self.cluster.configurations
        if kind not in there:
            return _status(404, f"{path} not found")
        if method == "PATCH":
            there[kind] = patched(there[kind], body, self.cluster.version())
        return 200, {key: value for key, value in copy.deepcopy(there[kind]).items() if key != "kind"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 20
    disable_nagle_algorithm = True  # head and body are two writes: the second must not wait for the client's word

    def do_GET(self) -> None:
        self._reply("GET", None)

    def do_POST(self) -> None:
        self._reply("POST", self._body())

    def do_PATCH(self) -> None:
        assert self.headers["Content-Type"] == "application/json-patch+json"
        self._reply("PATCH", self._body())

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def _reply(self, method: str, body: Any) -> None:
        assert self.headers["Authorization"] == f"Bearer {TOKEN}"
        status, item = self.server.api.answer(method, self.path, body)
        content = json.dumps(item).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing: a test shows what it needs."""


def _status(code: int, message: str) -> tuple[int, dict[str, Any]]:
    return code, {"kind": "Status", "status": "Failure", "code": code, "message": message}
