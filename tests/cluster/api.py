"""A small client of the API server: raw objects in, raw objects out, warnings kept."""

import json
import re
import ssl
from pathlib import Path
from typing import Any

import httpx

from cluster.process import until

Object = dict[str, Any]
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


class ApiError(Exception):
    """The API server's refusal, with its code and message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message


class Api:
    """Requests as one user. `warnings` holds those of the last request."""

    def __init__(self, url: str, token: str, ca: Path) -> None:
        self.url, self.token, self.ca = url, token, ca
        self.warnings: list[str] = []
        self._resources: dict[tuple[str, str], tuple[str, bool]] = {}
        self._client = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {token}"}, verify=_context(ca), timeout=60, trust_env=False
        )

    def close(self) -> None:
        self._client.close()

    def act_as(self, user: str) -> None:
        """Impersonate `user` from now on."""
        self._client.headers["Impersonate-User"] = user

    def request(self, method: str, path: str, body: object = None, **options: Any) -> Any:
        """Send a request and return the JSON of its answer, or its text. Raises ApiError, httpx.TransportError."""
        headers = {"Content-Type": options.pop("content_type", "application/json")}
        content = None if body is None else json.dumps(body)
        response = self._client.request(method, path, content=content, headers=headers, **options)
        found = (_WARNING.match(text) for text in response.headers.get_list("warning"))
        self.warnings = [re.sub(r"\\(.)", r"\1", match[1]) for match in found if match]
        is_json = response.headers.get("content-type", "").startswith("application/json")
        value = response.json() if is_json else response.text
        if response.status_code >= 400:
            raise ApiError(response.status_code, value["message"] if isinstance(value, dict) else value)
        return value

    def path(self, api_version: str, kind: str, namespace: str | None = None, name: str | None = None) -> str:
        """Return the path of a kind's objects, or of one object."""
        group = f"/api/{api_version}" if "/" not in api_version else f"/apis/{api_version}"
        plural, namespaced = self._resource(group, api_version, kind)
        path = f"{group}/namespaces/{namespace or 'default'}/{plural}" if namespaced else f"{group}/{plural}"
        return f"{path}/{name}" if name else path

    def create(self, item: Object, **params: str) -> Object:
        """Create an object as it stands."""
        return self.request("POST", self._path_of(item, named=False), item, params=params)

    def apply(self, item: Object, *, dry_run: bool = False, manager: str = "tests") -> Object:
        """Create or change an object by server-side apply."""
        params = {"fieldManager": manager, "force": "true"} | ({"dryRun": "All"} if dry_run else {})
        return self.request(
            "PATCH", self._path_of(item), item, params=params, content_type="application/apply-patch+yaml"
        )

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """Return an object, None where it is not there."""
        try:
            return self.request("GET", self.path(api_version, kind, namespace, name))
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def list(self, api_version: str, kind: str, namespace: str | None = None, labels: str = "") -> list[Object]:
        """Return the objects of a kind in a namespace ("default" where none is given)."""
        path = self.path(api_version, kind, namespace)
        return self.request("GET", path, params={"labelSelector": labels} if labels else None)["items"]

    def merge(self, item: Object, patch: Object, *, subresource: str = "") -> Object:
        """Change an object by a merge patch."""
        path = self._path_of(item) + (f"/{subresource}" if subresource else "")
        return self.request("PATCH", path, patch, content_type="application/merge-patch+json")

    def delete(self, item: Object, *, seconds: float = 60, now: bool = False) -> None:
        """Delete an object and wait until it is gone; `now` leaves it no time to end by itself."""
        path, uid = self._path_of(item), item["metadata"].get("uid")
        try:
            self.request("DELETE", path, {"gracePeriodSeconds": 0} if now else None)
        except ApiError as error:
            if error.code != 404:
                raise
        key = item["apiVersion"], item["kind"], item["metadata"]["name"], item["metadata"].get("namespace")

        def gone() -> bool:
            found = self.get(*key)
            return found is None or bool(uid and found["metadata"]["uid"] != uid)

        until(gone, seconds=seconds, what=f"{item['kind']} {item['metadata']['name']} gone")

    def refresh(self, item: Object) -> Object | None:
        """Return the object as it is now, None where it is gone."""
        metadata = item["metadata"]
        return self.get(item["apiVersion"], item["kind"], metadata["name"], metadata.get("namespace"))

    def _path_of(self, item: Object, *, named: bool = True) -> str:
        metadata = item["metadata"]
        return self.path(
            item["apiVersion"], item["kind"], metadata.get("namespace"), metadata["name"] if named else None
        )

    def _resource(self, group: str, api_version: str, kind: str) -> tuple[str, bool]:
        if (api_version, kind) not in self._resources:
            for each in self.request("GET", group)["resources"]:
                if "/" not in each["name"]:
                    self._resources[api_version, each["kind"]] = each["name"], each["namespaced"]
        return self._resources[api_version, kind]


def denial(api: Api, item: Object) -> str:
    """Return why an object would not be created, "" where it would: a dry run."""
    try:
        api.create(item, dryRun="All")
    except ApiError as error:
        return error.message
    return ""


def conditions(item: Object | None) -> list[Object]:
    """Return the conditions in an object's status, none where there is none yet."""
    return (item or {}).get("status", {}).get("conditions") or []


def is_true(item: Object | None, condition: str) -> bool:
    """True where the object has this condition with status True."""
    return any(each["type"] == condition and each["status"] == "True" for each in conditions(item))


def _context(ca: Path) -> Any:
    return ssl.create_default_context(cafile=str(ca))
