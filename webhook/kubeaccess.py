"""Where the API server is and as whom it is asked: as a pod's service account, or by a kubeconfig outside a cluster."""

import base64
import os
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dra.errors import Failed, Refused
from dra.fields import Fields
from dra.reasons import Reason
from webhook.yamltext import load

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_WRONG = Reason.INVALID_CONFIGURATION


class NotServed(Failed):
    """The API server knows no such path: the version of an API is gone, or not there yet in one that starts.

    What it knows and does not have, it names in its answer. Source: k8s.io/apimachinery, pkg/api/errors, NewNotFound.
    """


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach an API server. `token` is called for each request: the kubelet renews the file."""

    url: str
    tls: ssl.SSLContext
    token: Callable[[], str | None]


def find_access(kubeconfig: Path | None, environ: Mapping[str, str] = os.environ) -> Access:
    """Return the access that `kubeconfig` describes, a pod's own where it is None.

    Raises Refused where the kubeconfig is wrong, Failed where something cannot be read.
    """
    try:
        return _in_cluster(environ) if kubeconfig is None else _outside(kubeconfig)
    except (OSError, UnicodeDecodeError) as error:  # ssl.SSLError is an OSError
        why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else error
        raise Failed(Reason.UNREADABLE, f"the access to the API server: {why}") from error


def _in_cluster(environ: Mapping[str, str]) -> Access:
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        message = "there is no API server to ask: KUBERNETES_SERVICE_HOST is not set, and no --kubeconfig is given"
        raise Failed(Reason.API_UNAVAILABLE, message)
    address = f"[{host}]" if ":" in host else host
    tls = ssl.create_default_context(cafile=str(SERVICE_ACCOUNT / "ca.crt"))
    return Access(f"https://{address}:{port}", tls, _file(SERVICE_ACCOUNT / "token"))


def _outside(path: Path) -> Access:
    """Return the access of a kubeconfig's current context: by token or client certificate, without helpers.

    Source: k8s.io/client-go/tools/clientcmd/api/v1, Config.
    """
    try:
        value = load(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise Refused(_WRONG, f"is not YAML: {error}", path=str(path)) from error
    config = Fields.of(value, str(path), _WRONG)
    context = _named(config, "contexts", config.text("current-context"), "context")
    cluster = _named(config, "clusters", context.text("cluster"), "cluster")
    user = _named(config, "users", context.text("user"), "user")
    if user.raw.get("exec") is not None:
        raise user.refuse("exec", "programs are not run: use a token or a client certificate")
    authority = _data(cluster, "certificate-authority", path.parent)
    tls = ssl.create_default_context(cadata=authority.decode() if authority else None)
    _add_certificate(tls, user, path.parent)
    file, token = user.optional_text("tokenFile"), user.optional_text("token")
    return Access(cluster.text("server").rstrip("/"), tls, _file(path.parent / file) if file else lambda: token)


def _named(config: Fields, kind: str, name: str, key: str) -> Fields:
    for index, raw in enumerate(config.items(kind)):
        entry = Fields.of(raw, f"{config.at(kind)}[{index}]", _WRONG)
        if entry.raw.get("name") == name:
            return entry.mapping(key)
    raise config.refuse(kind, f"has no entry called {name[:80]!a}")


def _data(fields: Fields, name: str, folder: Path) -> bytes | None:
    """Return what stands in `<name>-data` or in the file that `name` names, None where neither is set."""
    if (encoded := fields.optional_text(f"{name}-data")) is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except ValueError as error:
            raise fields.refuse(f"{name}-data", f"is not base64: {error}") from error
    file = fields.optional_text(name)
    return None if file is None else (folder / file).read_bytes()


def _add_certificate(tls: ssl.SSLContext, user: Fields, folder: Path) -> None:
    certificate, key = (_data(user, name, folder) for name in ("client-certificate", "client-key"))
    if certificate is None or key is None:
        return
    # Python's ssl loads a certificate from files only.
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        tls.load_cert_chain(file.name)


def _file(path: Path) -> Callable[[], str | None]:
    def read() -> Any:
        return path.read_text(encoding="ascii").strip()

    return read
