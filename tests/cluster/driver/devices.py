"""The stand-in's devices: files of a CDI spec and of metadata, and nothing behind them."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.driver.metadata import container_path, content
from cluster.driver.prepared import CannotPrepare, Claim, Prepared
from cluster.driver.settings import Settings

ROOT = "/dravirt-root"
"""Where containers see the host's `sys` and `dev`."""
WriteStatus = Callable[[Claim, Sequence[Mapping[str, Any]]], None]
"""Writes entries of a claim's `status.devices`."""


class StandInDevices:
    """Devices that are files only. Files of metadata are rewritten in place, as the drivers' library does."""

    def __init__(self, settings: Settings, cdi: Path, metadata: Path, write_status: WriteStatus) -> None:
        self.settings = settings
        self._cdi, self._metadata, self._write_status = cdi, metadata, write_status
        self._claims: dict[str, Claim] = {}
        self._shares: dict[str, Mapping[str, Any]] = {}

    def change(self, settings: Settings) -> None:
        """Take other settings: metadata files of prepared claims follow them."""
        self.settings = settings
        for claim in list(self._claims.values()):
            self._write_metadata(claim)

    def prepare(self, claim: Claim) -> Sequence[Prepared]:
        """Write the claim's CDI spec and metadata. Raises CannotPrepare where the settings say so."""
        if self.settings.error:
            raise CannotPrepare(self.settings.error)
        self._claims[claim.uid] = claim
        mounts = self._write_metadata(claim)
        devices = [self._cdi_device(claim, index, mounts) for index in range(len(claim.results))]
        spec = {"cdiVersion": "0.6.0", "kind": self._kind, "containerEdits": self._common_edits(), "devices": devices}
        self._write(self._spec(claim.uid), json.dumps(spec))
        entries = [entry for each in claim.results if (entry := self._status(each))]
        if entries:
            self._write_status(claim, entries)
        return [self._prepared(claim, index) for index in range(len(claim.results))]

    def unprepare(self, uid: str) -> None:
        """Remove the claim's files."""
        claim = self._claims.pop(uid, None)
        for result in claim.results if claim else ():
            self._shares.pop(result.get("shareID", ""), None)
        self._spec(uid).unlink(missing_ok=True)
        for path in self._metadata.glob(f"{uid}_*"):
            path.unlink()

    @property
    def _kind(self) -> str:
        return f"{self.settings.driver}/claim"

    def _spec(self, uid: str) -> Path:
        return self._cdi / f"{self.settings.driver}-{uid}.json"

    def _common_edits(self) -> dict[str, Any]:
        if self.settings.root is None:
            return {"env": [f"STAND_IN_DRIVER={self.settings.driver}"]}
        return {"env": [f"DRAVIRT_ROOT={ROOT}"], "mounts": [_mount(self.settings.root, ROOT)]}

    def _cdi_device(self, claim: Claim, index: int, metadata: dict[str, dict[str, Any]]) -> dict[str, Any]:
        result = claim.results[index]
        environment = self.settings.of(result["device"]).environment
        edits: dict[str, Any] = {"env": [f"{name}={value}" for name, value in environment.items()]}
        # A request has one file, which comes with its first device.
        if mount := metadata.pop(_base(result), None):
            edits["mounts"] = [mount]
        edits["env"].append(f"STAND_IN_DEVICE_{index}={result['device']}")
        return {"name": _cdi_name(claim, index), "containerEdits": edits}

    def _write_metadata(self, claim: Claim) -> dict[str, dict[str, Any]]:
        """Write a metadata file per request; return the mounts of the files by request."""
        mounts = {}
        for request in dict.fromkeys(_base(each) for each in claim.results):
            results = [each for each in claim.results if _base(each) == request]
            if not self.settings.metadata_of(results[0]["device"]):
                continue
            host_path = self._metadata / f"{claim.uid}_{request}.json"
            self._write(host_path, content(claim, results, self.settings))
            mounts[request] = _mount(str(host_path), container_path(claim, request, self.settings.driver))
        return mounts

    def _status(self, result: dict[str, Any]) -> Mapping[str, Any] | None:
        own = self.settings.of(result["device"])
        data = self._share(result["shareID"], own.shares) if own.shares else own.status
        if data is None:
            return None
        identity = {name: result[name] for name in ("driver", "pool", "device", "shareID") if name in result}
        return {**identity, "data": data}

    def _share(self, share_id: str, shares: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the data of a share, the first that no other has where it is new."""
        if share_id not in self._shares:
            self._shares[share_id] = next(each for each in shares if each not in self._shares.values())
        return self._shares[share_id]

    def _prepared(self, claim: Claim, index: int) -> Prepared:
        result = claim.results[index]
        cdi_id = f"{self._kind}={_cdi_name(claim, index)}"
        return Prepared(result["request"], result["pool"], result["device"], result.get("shareID"), (cdi_id,))

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _base(result: dict[str, Any]) -> str:
    return str(result["request"].partition("/")[0])


def _cdi_name(claim: Claim, index: int) -> str:
    return f"{claim.uid}-{index}"


def _mount(host_path: str, container_path: str) -> dict[str, Any]:
    return {"hostPath": host_path, "containerPath": container_path, "options": ["ro", "nosuid", "nodev", "bind"]}
