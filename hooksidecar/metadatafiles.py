"""The metadata files that DRA drivers write for the containers that use a claim: the first source of devices.

Their paths are built from the intent, never searched for: what else lies in the folder belongs to another claim.
Source: KEP-5304; k8s.io/dynamic-resource-allocation/api/metadata, doc.go.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

from dra.allocation import AllocatedDevice
from dra.device import Source
from dra.errors import DravirtError, Failed, Refused
from dra.identity import Identity
from dra.intent import ClaimedRequest
from dra.metadata import MAX_METADATA, decode_metadata
from dra.names import base_request, is_dns_label, is_dns_subdomain
from dra.reasons import Reason
from hooksidecar.candidates import Answer, Candidate, Wanted
from hooksidecar.files import entries, read_file

MAX_DRIVERS = 16
"""Drivers that one request is read from; more than one is rare."""
_SUFFIX = "-metadata.json"
_DIRECT = "resourceclaims"


class MetadataFiles:
    """The source that reads `<claim>/<request>/<driver>-metadata.json` below `folder`."""

    name = Source.METADATA

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, wanted: Sequence[Wanted], taken: Collection[Identity]) -> list[Answer]:  # noqa: ARG002 (protocol)
        """Return an answer for each entry: the devices in the files of its claim and request."""
        return [self._answer(want) for want in wanted]

    def _answer(self, want: Wanted) -> Answer:
        try:
            return tuple(Candidate(device) for device in self._devices(want))
        except DravirtError as error:
            return error

    def _devices(self, want: Wanted) -> list[AllocatedDevice]:
        claim = self._claim(want.entry)
        requests = self._requests(claim)
        base = want.entry.request.base_request
        if base is not None and base not in requests:
            raise _unknown_request(want, claim, requests)
        there = [device for request in ([base] if base else requests) for device in self._request(claim / request)]
        devices = [device for device in there if want.takes(device.request)]
        if there and not devices:
            raise _unknown_request(want, claim, sorted({device.request for device in there}))
        if not devices:
            raise _not_yet(f"{claim}: no device is listed")
        return devices

    def _claim(self, entry: ClaimedRequest) -> Path:
        if entry.request.claim is not None:
            return self._folder / _DIRECT / entry.request.claim
        return self._folder / "resourceclaimtemplates" / entry.pod_claim

    def _requests(self, claim: Path) -> list[str]:
        """Return the requests of the claim for which there is metadata: a folder for each."""
        names = entries(claim, within=self._folder)
        if names is None:
            # A copy of a generated claim has it: then the path is made of another pod claim's name.
            hint = " (nor would it be, if the claim has the annotation resource.kubernetes.io/pod-claim-name)"
            raise _not_yet(f"{claim} is not there{hint if claim.parent.name == _DIRECT else ''}")
        return [name for name in names if is_dns_label(name)]

    def _request(self, folder: Path) -> list[AllocatedDevice]:
        """Return the devices of one request, from the files of all its drivers in the order of their names."""
        names = entries(folder, within=self._folder) or []
        files = [folder / name for name in names if _is_metadata(name)]
        if not files:
            raise _not_yet(f"{folder}: no *{_SUFFIX}")
        if len(files) > MAX_DRIVERS:
            message = f"holds the metadata of {len(files)} drivers, at most {MAX_DRIVERS} are looked at"
            raise Refused(Reason.INVALID_METADATA, message, path=str(folder))
        return [device for file in files for device in self._file(file) if base_request(device.request) == folder.name]

    def _file(self, file: Path) -> tuple[AllocatedDevice, ...]:
        data = read_file(file, within=self._folder, limit=MAX_METADATA)
        if data is None:
            raise _not_yet(f"{file} is not there any more")
        return decode_metadata(data, path=str(file))


def _is_metadata(name: str) -> bool:
    return name.endswith(_SUFFIX) and is_dns_subdomain(name.removesuffix(_SUFFIX))


def _not_yet(message: str) -> Failed:
    return Failed(Reason.UNRESOLVED, message)


def _unknown_request(want: Wanted, claim: Path, requests: Sequence[str]) -> DravirtError:
    if not requests:
        return _not_yet(f"{claim} is empty")
    message = f"there is no request {want.entry.request.request!r}, there is {', '.join(requests)}"
    return Refused(Reason.UNKNOWN_REQUEST, message, path=str(claim))
