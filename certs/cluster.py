"""The API server: the Secret, changed by compare-and-swap, and the webhook configurations, changed by patch.

Objects are raw JSON: the client's typed models would lose fields that a newer API server has.
"""

import base64
import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

import urllib3
from kubernetes import config as kubeconfigs
from kubernetes.client import AdmissionregistrationV1Api, ApiClient, Configuration, CoreV1Api, V1ObjectMeta, V1Secret
from kubernetes.client.exceptions import ApiException

from certs.cabundle import Operation, RawObject
from certs.store import Conflict, Place, Reading
from dra.errors import Failed, Refused
from dra.reasons import Reason

_OPTIONS: dict[str, Any] = {"_preload_content": False, "_request_timeout": (2.0, 5.0)}
_MANAGER: dict[str, Any] = {"field_manager": "dravirt-certs"}
_MAX_ANSWER = 4 * 1024 * 1024


def connect(kubeconfig: Path | None, context: str | None = None, *, in_cluster: bool) -> ApiClient:
    """Return a client of the API server: as the pod's service account, or by a kubeconfig (None: the usual one).

    Raises Refused where the kubeconfig is wrong, Failed where there is none.
    """
    settings = Configuration()
    try:
        if in_cluster and kubeconfig is None:
            kubeconfigs.load_incluster_config(settings)  # type: ignore[no-untyped-call] # (as it is shipped)
            settings.proxy = None  # the token goes to the API server alone
        else:
            file = str(kubeconfig) if kubeconfig else None
            kubeconfigs.load_kube_config(file, context, settings)  # type: ignore[no-untyped-call] # (as above)
    except kubeconfigs.ConfigException as error:
        if in_cluster and kubeconfig is None:
            raise Failed(Reason.API_UNAVAILABLE, f"this is no pod of a cluster: {error}") from error
        raise Refused(Reason.INVALID_CONFIGURATION, f"the kubeconfig: {error}: name one with --kubeconfig") from error
    settings.retries = 1
    return ApiClient(settings)


class Cluster:
    """The objects of one installation. Every method raises Failed, Conflict where it was too late."""

    def __init__(self, client: ApiClient, place: Place) -> None:
        self.place = place
        self._core, self._registration = CoreV1Api(client), AdmissionregistrationV1Api(client)
        self._patches: Mapping[str, Callable[..., Any]] = {
            "MutatingWebhookConfiguration": self._registration.patch_mutating_webhook_configuration,
            "ValidatingWebhookConfiguration": self._registration.patch_validating_webhook_configuration,
        }

    def configurations(self) -> tuple[RawObject, ...]:
        """Return the webhook configurations that are there."""
        reads = {
            "MutatingWebhookConfiguration": self._registration.read_mutating_webhook_configuration,
            "ValidatingWebhookConfiguration": self._registration.read_validating_webhook_configuration,
        }
        found = []
        for kind, read in reads.items():
            _, item = _get(f"{kind} {self.place.configuration}", read, self.place.configuration)
            if item is not None:
                found.append({**item, "kind": kind})
        return tuple(found)

    def patch(self, configuration: RawObject, operations: Sequence[Operation]) -> RawObject:
        """Change a configuration and return it as it is then."""
        kind, name = configuration["kind"], configuration["metadata"]["name"]
        with _errors(f"{kind} {name}"):
            return {**_json(self._patches[kind](name, list(operations), **_MANAGER, **_OPTIONS)), "kind": kind}

    def secret(self) -> Reading:
        """Return the Secret."""
        now, item = _get(self._secret_name, self._core.read_namespaced_secret, self.place.secret, self.place.namespace)
        return Reading(now, item)

    def write(self, before: Reading, data: Mapping[str, bytes]) -> None:
        """Put `data` into the Secret as it was read, or make it where it was not there; other keys stay."""
        encoded: dict[str, Any] = {name: base64.b64encode(value).decode() for name, value in data.items()}
        with _errors(self._secret_name):
            if before.secret is None:
                body = V1Secret(type="Opaque", metadata=V1ObjectMeta(name=self.place.secret), data=encoded)
                self._core.create_namespaced_secret(self.place.namespace, body, **_MANAGER, **_OPTIONS)
                return
            version = before.secret["metadata"]["resourceVersion"]
            patch = [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}]
            if not before.secret.get("data"):
                patch.append({"op": "add", "path": "/data", "value": {}})
            patch += [{"op": "add", "path": f"/data/{name}", "value": value} for name, value in encoded.items()]
            self._core.patch_namespaced_secret(self.place.secret, self.place.namespace, patch, **_MANAGER, **_OPTIONS)

    @property
    def _secret_name(self) -> str:
        return f"Secret {self.place.namespace}/{self.place.secret}"


def _get(what: str, read: Callable[..., Any], *names: str) -> tuple[dt.datetime, RawObject | None]:
    """Return the API server's time and the object, None where there is none."""
    with _errors(what):
        try:
            answer = read(*names, **_OPTIONS)
        except ApiException as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return _date(error.headers), None
        return _date(answer.headers), _json(answer)


@contextmanager
def _errors(what: str) -> Iterator[None]:
    try:
        yield
    except ApiException as error:
        message = f"{what}: {error.status}: {_message(error)}"
        # (422: a test of the patch failed, since an entry is not where it was)
        if error.status in {HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY}:
            raise Conflict(message) from error
        raise Failed(Reason.API_UNAVAILABLE, message) from error
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise Failed(Reason.API_UNAVAILABLE, f"{what}: {error!s:.300}") from error


def _json(answer: Any) -> dict[str, Any]:
    data = answer.read(_MAX_ANSWER + 1)
    answer.release_conn()
    value = json.loads(data) if len(data) <= _MAX_ANSWER else None
    if not isinstance(value, dict):
        raise ValueError("the answer is no JSON object of a bearable size")  # noqa: TRY004 (told as any wrong answer)
    return value


def _message(error: ApiException) -> str:
    body = error.body or ""
    try:
        return str(json.loads(body)["message"])[:300]
    except (ValueError, KeyError, TypeError):
        return str(error.reason)[:300]


def _date(headers: Any) -> dt.datetime:
    """Return the date of an answer, our own where a proxy has removed it."""
    try:
        return parsedate_to_datetime(headers["Date"])
    except (KeyError, TypeError, ValueError):
        return dt.datetime.now(dt.UTC)
