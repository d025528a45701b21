"""The API server: the Secret, changed by compare-and-swap, and the webhook configurations, changed by patch.

Objects are raw JSON: the client's typed models would lose fields that a newer API server has.
"""

import base64
import datetime as dt
import json
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

import urllib3
import yaml
from kubernetes import config as kubeconfigs
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException

from certs.cabundle import Operation, RawObject
from certs.store import Conflict, Place, Reading
from dra.errors import Failed, Refused
from dra.reasons import Reason

_KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_TIMEOUT = (2.0, 5.0)
"""Seconds to connect, and to wait for an answer."""
_MAX_ANSWER = 4 * 1024 * 1024


def connect(kubeconfig: Path | None, context: str | None = None, *, in_cluster: bool) -> ApiClient:
    """Return a client of the API server: as the pod's service account, or by a kubeconfig (None: the usual one).

    Raises Refused where the kubeconfig is wrong, Failed where there is none or it cannot be read.
    """
    # (it tells of retries, and the error at their end says it all)
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    settings = Configuration()
    if in_cluster and kubeconfig is None:
        try:
            kubeconfigs.load_incluster_config(settings)  # type: ignore[no-untyped-call] # (as it is shipped)
        except kubeconfigs.ConfigException as error:
            raise Failed(Reason.API_UNAVAILABLE, f"this is no pod of a cluster: {error}") from error
        settings.proxy = None  # the token goes to the API server alone
    else:
        files = str(kubeconfig or os.environ.get("KUBECONFIG") or Path("~/.kube/config").expanduser())
        _load_kubeconfig(files, context, settings)
    settings.retries = 1
    return ApiClient(settings)


def _load_kubeconfig(files: str, context: str | None, settings: Configuration) -> None:
    """Load a kubeconfig, or several that are parted by colons, of which some may be missing."""
    if not any(Path(file).expanduser().exists() for file in files.split(os.pathsep) if file):
        raise Failed(Reason.UNREADABLE, f"{files}: No such file or directory: name a kubeconfig with --kubeconfig")
    try:
        kubeconfigs.load_kube_config(files, context, settings)  # type: ignore[no-untyped-call] # (as above)
    except OSError as error:
        raise Failed(Reason.UNREADABLE, f"{error.filename or files}: {error.strerror}") from error
    except (kubeconfigs.ConfigException, yaml.YAMLError) as error:
        raise Refused(Reason.INVALID_CONFIGURATION, f"the kubeconfig {files}: {error}") from error
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        # (the client looks into what was read without a check of its shape)
        raise Refused(Reason.INVALID_CONFIGURATION, f"{files} holds no kubeconfig: {error}") from error


@dataclass(frozen=True, slots=True)
class Sent:
    """An answer of the API server, whatever its status."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def value(self) -> Any:
        """The JSON of the answer, None where it holds none of a bearable size."""
        if len(self.content) <= _MAX_ANSWER:
            with suppress(ValueError):
                return json.loads(self.content)
        return None

    @property
    def date(self) -> dt.datetime:
        """The API server's time, our own where a proxy has removed it."""
        try:
            return parsedate_to_datetime(self.headers["Date"])
        except (KeyError, TypeError, ValueError):
            return dt.datetime.now(dt.UTC)

    @property
    def message(self) -> str:
        """What a refusal says."""
        value = self.value
        text = value.get("message") if isinstance(value, dict) else self.content[:200].decode(errors="replace")
        return f"{text!s:.300}"


def send(client: ApiClient, what: str, method: str, path: str, body: object = None) -> Sent:
    """Send a request about `what` and return the answer. Raises Failed where none comes."""
    kind = "application/json-patch+json" if method == "PATCH" else "application/json"
    headers = {"Accept": "application/json", "Content-Type": kind}
    # The client's API classes are left out: their models take 25 MB.
    request = client.param_serialize(method, path, header_params=headers, body=body, auth_settings=["BearerToken"])
    try:
        answer = client.call_api(*request, _request_timeout=_TIMEOUT).response
        content = answer.read(_MAX_ANSWER + 1)
        answer.release_conn()
    except (urllib3.exceptions.HTTPError, ApiException, OSError) as error:
        why = error.reason if isinstance(error, urllib3.exceptions.MaxRetryError) and error.reason else error
        raise Failed(Reason.API_UNAVAILABLE, f"{what}: {why!s:.300}") from error
    return Sent(answer.status, answer.headers, content)


class Cluster:
    """The objects of one installation. Every method raises Failed, Conflict where it was too late."""

    def __init__(self, client: ApiClient, place: Place) -> None:
        self._client, self.place = client, place

    def configurations(self) -> tuple[RawObject, ...]:
        """Return the webhook configurations that are there."""
        found = []
        for kind in _KINDS:
            answer = self._request(f"{kind} {self.place.configuration}", "GET", self._configuration(kind))
            if answer.item is not None:
                found.append({**answer.item, "kind": kind})
        return tuple(found)

    def patch(self, configuration: RawObject, operations: Sequence[Operation]) -> RawObject:
        """Change a configuration and return it as it is then."""
        kind = configuration["kind"]
        what = f"{kind} {self.place.configuration}"
        return {**self._write(what, "PATCH", self._configuration(kind), list(operations)), "kind": kind}

    def secret(self) -> Reading:
        """Return the Secret."""
        answer = self._request(self._secret, "GET", f"{self._secrets}/{self.place.secret}")
        return Reading(answer.date, answer.item)

    def write(self, before: Reading, data: Mapping[str, bytes]) -> None:
        """Put `data` into the Secret as it was read, or make it where it was not there; other keys stay."""
        encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
        if before.secret is None:
            metadata = {"name": self.place.secret, "namespace": self.place.namespace}
            made = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata, "data": encoded}
            self._write(self._secret, "POST", self._secrets, made)
            return
        version = before.secret["metadata"]["resourceVersion"]
        patch: list[Operation] = [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}]
        if not before.secret.get("data"):
            patch.append({"op": "add", "path": "/data", "value": {}})
        patch += [{"op": "add", "path": f"/data/{name}", "value": value} for name, value in encoded.items()]
        self._write(self._secret, "PATCH", f"{self._secrets}/{self.place.secret}", patch)

    @property
    def _secret(self) -> str:
        return f"Secret {self.place.namespace}/{self.place.secret}"

    @property
    def _secrets(self) -> str:
        return f"/api/v1/namespaces/{self.place.namespace}/secrets"

    def _configuration(self, kind: str) -> str:
        return f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s/{self.place.configuration}"

    def _write(self, what: str, method: str, path: str, body: object) -> RawObject:
        item = self._request(what, method, f"{path}?fieldManager=dravirt-certs", body).item
        if item is None:
            raise Conflict(f"{what}: it is gone")
        return item

    def _request(self, what: str, method: str, path: str, body: object = None) -> "_Answer":
        return _answer(what, send(self._client, what, method, path, body))


@dataclass(frozen=True, slots=True)
class _Answer:
    """An object, None where there is none, and the API server's time."""

    date: dt.datetime
    item: RawObject | None


def _answer(what: str, sent: Sent) -> _Answer:
    """Return what the API server answered. Raises Failed, Conflict."""
    status, value = sent.status, sent.value
    if status == HTTPStatus.NOT_FOUND:
        return _Answer(sent.date, None)
    if status >= HTTPStatus.BAD_REQUEST:
        told = f"{what}: {status}: {sent.message}"
        # (422: a test of the patch failed, since an entry is not where it was)
        if status in {HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY}:
            raise Conflict(told)
        raise Failed(Reason.API_UNAVAILABLE, told)
    if not isinstance(value, dict):
        raise Failed(Reason.API_UNAVAILABLE, f"{what}: the answer is no JSON object of a bearable size")
    return _Answer(sent.date, value)
