"""The API server, asked about objects: each answer is the object, or says why it could not be seen."""

import datetime as dt
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import quote

from certs.cluster import Sent, send
from cli.doctor.facts import Objects, RawObject, Unseen, Verdict
from cli.doctor.finding import Fix
from dra.errors import Failed
from dra.reasons import Reason
from webhook.raw import mapping, mappings

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

_PAGE = 50
"""Objects in one answer: a ResourceSlice may have 40 kB."""
_MAX_PAGES = 400


class Server:
    """Requests as one user. Every method raises Failed where no answer comes."""

    def __init__(self, client: "ApiClient") -> None:
        """Take a client that is connected."""
        self._client = client
        self.now = dt.datetime.now(dt.UTC)
        """The API server's time, when it answered last."""

    def get(self, path: str) -> RawObject | Unseen | None:
        """Return the object at `path`, None where there is none."""
        sent = self._send("GET", path)
        if sent.status == HTTPStatus.NOT_FOUND:
            return None
        value = sent.value
        if sent.status >= HTTPStatus.BAD_REQUEST or not isinstance(value, dict):
            return Unseen(sent.message)
        return value

    def list(self, path: str, labels: str = "") -> Objects | Unseen:
        """Return the objects at `path`, none where the kind is not there; each with its kind, which lists leave out."""
        found: list[RawObject] = []
        query, more = f"limit={_PAGE}" + (f"&labelSelector={quote(labels)}" if labels else ""), ""
        for _ in range(_MAX_PAGES):
            page = self.get(f"{path}?{query}{f'&continue={quote(more)}' if more else ''}")
            if page is None:
                return ()
            if isinstance(page, Unseen):
                return page
            head = {"apiVersion": page.get("apiVersion"), "kind": str(page.get("kind")).removesuffix("List")}
            found += [{**head, **each, "metadata": _plain(each)} for each in mappings(page, "items")]
            more = str(mapping(page, "metadata").get("continue") or "")
            if not more:
                return tuple(found)
        return Unseen(f"there are more than {_MAX_PAGES * _PAGE}")

    def try_out(self, path: str, item: RawObject) -> Verdict | Unseen:
        """Return what comes of creating the object in a dry run; unseen where the user may not create it."""
        sent = self._send("POST", f"{path}?dryRun=All", item)
        value = sent.value if isinstance(sent.value, dict) else {}
        if sent.status == HTTPStatus.NOT_FOUND or "cannot create resource" in sent.message:
            return Unseen(sent.message)
        if sent.status >= HTTPStatus.BAD_REQUEST:
            return Verdict(sent.status, sent.message)
        return Verdict(sent.status, item=value)

    def ask(self, path: str, question: RawObject) -> RawObject | Unseen:
        """Return the answer to a review, which is created and not kept."""
        sent = self._send("POST", path, question)
        value = sent.value
        return value if sent.status < HTTPStatus.BAD_REQUEST and isinstance(value, dict) else Unseen(sent.message)

    def change(self, fix: Fix) -> None:
        """Make a change to the object as it was seen. Raises Failed where it has changed, or must not be."""
        version = {"op": "replace", "path": "/metadata/resourceVersion", "value": fix.version}
        sent = self._send("PATCH", f"{fix.path}?fieldManager=dravirt-doctor", [version, *fix.operations])
        if sent.status >= HTTPStatus.BAD_REQUEST:
            reason = Reason.CONFLICT if sent.status == HTTPStatus.CONFLICT else Reason.API_UNAVAILABLE
            raise Failed(reason, f"{fix.path}: {sent.message}")

    def _send(self, method: str, path: str, body: object = None) -> Sent:
        sent = send(self._client, f"{method} {path}", method, path, body)
        if sent.status == HTTPStatus.UNAUTHORIZED:
            raise Failed(Reason.API_UNAVAILABLE, f"the API server does not know this user: {sent.message}")
        self.now = sent.date
        return sent


def _plain(item: RawObject) -> RawObject:
    """Return the metadata without who set which field: half of what a list would hold in memory."""
    return {name: value for name, value in mapping(item, "metadata").items() if name != "managedFields"}
