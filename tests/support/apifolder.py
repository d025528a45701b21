"""An API server made of a folder: what is asked over real TLS and HTTP is read from JSON files.

    tokens/<token>.json              the status of a TokenReview; a token without a file is not authenticated
    pods/<namespace>/<name>.json     and resourceclaims/, resourceclaimtemplates/ likewise
    resourceslices/<name>.json       deviceclasses/ likewise
    versions.json                    the versions of resource.k8s.io that are served
    faults.json                      [{"path": part of a path, "status", "headers", "delay", "close"}]: the first counts

It selects slices by field and pages lists as Kubernetes does, and knows the three versions.
"""

import json
import shutil
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from support.allocations import Raw, in_v1beta1, review_status

from cli.throwaway import issue

TOKEN = "the-services-own"


class ApiFolder:
    """A server on a free port of loopback, for `with`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        self.sent = 0
        self.write("versions", ["v1", "v1beta2", "v1beta1"])
        pki = folder / "pki"
        pki.mkdir()
        self.certificate = issue(pki)
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.api = self
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate.certificate, self.certificate.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://127.0.0.1:{self._server.server_port}"
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
        path = self.folder / "kubeconfig.json"
        cluster = {"server": self.url, "certificate-authority": str(self.certificate.authority)}
        config = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path.write_text(json.dumps(config))
        return path

    def write(self, name: str, value: object) -> None:
        """Write a file, all of it at once."""
        path = self.folder / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(value))
        new.replace(path)

    def put(self, *items: Raw) -> None:
        """Create or change objects."""
        for item in items:
            metadata = item["metadata"]
            folder = item["kind"].lower() + ("es" if item["kind"].endswith("s") else "s")
            self.write("/".join([folder, *filter(None, [metadata.get("namespace")]), metadata["name"]]), item)

    def enter(self, of: Raw, token: str) -> None:
        """Create a pod, or change it, and let `token` be its token."""
        self.put(of)
        self.write(f"tokens/{token}", review_status(of))

    def remove(self, *items: Raw) -> None:
        """Delete objects."""
        for item in items:
            metadata = item["metadata"]
            parts = [item["kind"].lower() + "s", *filter(None, [metadata.get("namespace")]), metadata["name"]]
            (self.folder / f"{'/'.join(parts)}.json").unlink()

    def clear(self, folder: str) -> None:
        """Delete all objects of a kind."""
        shutil.rmtree(self.folder / folder)

    def fail(self, *faults: Raw) -> None:
        """Fail from now on as `faults` say."""
        self.write("faults", faults)

    def read(self, name: str) -> Any:
        """Return what is in a file, None where there is none."""
        try:
            return json.loads((self.folder / f"{name}.json").read_text())
        except FileNotFoundError:
            return None


class _Server(ThreadingHTTPServer):
    api: ApiFolder
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """A client that goes away is no news."""


_NOT_SERVED = object()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])))

    def _answer(self, body: bytes) -> None:
        api = self.server.api
        api.asked.append(f"{self.command} {self.path}")
        assert self.headers["Authorization"] == f"Bearer {TOKEN}"
        for fault in api.read("faults") or ():
            if fault["path"] in self.path:
                time.sleep(fault.get("delay", 0))
                if fault.get("close"):
                    self.close_connection = True
                    return
                if "status" in fault:
                    self._send(fault["status"], {"message": fault.get("message", "")}, fault.get("headers", {}))
                    return
                break
        found = _find(api, self.path, body)
        if found is _NOT_SERVED:
            self._send(404, b"404 page not found\n", {"Content-Type": "text/plain"})
        elif found is None:
            self._send(404, {"kind": "Status", "reason": "NotFound", "details": {"name": self.path.rpartition("/")[2]}})
        else:
            self._send(200, found)

    def _send(self, status: int, value: object, headers: dict[str, str] | None = None) -> None:
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.server.api.sent += len(content)
        self.send_response(status)
        for name, text in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _find(api: ApiFolder, url: str, body: bytes) -> Any:
    """Return what a request asks for, None where it is not there, `_NOT_SERVED` where nothing could be."""
    parts = urlsplit(url)
    match parts.path.strip("/").split("/"):
        case ["apis", "authentication.k8s.io", "v1", "tokenreviews"]:
            review = json.loads(body)
            failed = {"authenticated": False, "error": "token is not valid"}
            return {**review, "status": api.read(f"tokens/{review['spec']['token']}") or failed}
        case ["api", "v1", "namespaces", namespace, "pods", name]:
            return api.read(f"pods/{namespace}/{name}")
        case ["apis", "resource.k8s.io"]:
            return {"versions": [{"version": each} for each in api.read("versions")]}
        case ["apis", "resource.k8s.io", version, *rest] if version in api.read("versions"):
            query = {key: values[0] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
            return _find_dra(api, version, rest, query)
    return _NOT_SERVED


def _find_dra(api: ApiFolder, version: str, path: list[str], query: dict[str, str]) -> Any:
    match path:
        case ["namespaces", namespace, plural, name]:
            return api.read(f"{plural}/{namespace}/{name}")
        case ["namespaces", namespace, plural]:
            files = sorted((api.folder / plural / namespace).glob("*.json"))
            return _page([json.loads(each.read_text()) for each in files], query)
        case ["resourceslices"]:
            return _page([_convert(each, version) for each in _slices(api, query.get("fieldSelector", ""))], query)
        case [plural, name]:
            return api.read(f"{plural}/{name}")
    return None


def _slices(api: ApiFolder, selector: str) -> list[Raw]:
    wanted = dict(part.split("=", 1) for part in selector.split(",") if part)
    found = [json.loads(each.read_text()) for each in sorted((api.folder / "resourceslices").glob("*.json"))]
    return [
        each
        for each in found
        if all(each["spec"].get(key.removeprefix("spec."), "") == value for key, value in wanted.items())
    ]


def _convert(slice_: Raw, version: str) -> Raw:
    return in_v1beta1(slice_) if version == "v1beta1" else slice_


def _page(items: list[Raw], query: dict[str, str]) -> Raw:
    start, limit = int(query.get("continue", 0)), int(query.get("limit", len(items) or 1))
    rest = {"continue": str(start + limit)} if start + limit < len(items) else {}
    return {"metadata": rest, "items": items[start : start + limit]}
