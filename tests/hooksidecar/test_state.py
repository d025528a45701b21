"""The state: what was resolved survives a restart, and nothing broken or foreign is ever taken for it."""

import json
import os
import resource
from dataclasses import replace

import pytest
from support.claimed import entry, intent

from dra.device import Device, Kind, Source
from dra.errors import Failed, Refused
from dra.identity import MdevUUID, PciAddress
from dra.reasons import Reason
from hooksidecar.state import State

ASKED = intent(entry("a", display=True), entry("b", count=2))
MDEV = Device(
    "a",
    MdevUUID.parse("3f0e2a54-6c1d-4b7a-9f33-0c5d1e2b7a10"),
    display=True,
    kind=Kind.VGPU_MDEV,
    profile="NVIDIA A100-1-5C",
    mig_backed=True,
    iommu_group="107",
    driver="vgpu.example.com",
    pool="node-7",
    device="v0",
    request="vgpu",
    source=Source.METADATA,
)
DEVICES = (MDEV, *(Device(f"b-{index}", PciAddress(0, 0x65, index, 0)) for index in range(2)))


def test_devices_come_back_whole_with_the_state_as_source(tmp_path):
    State(tmp_path).keep(ASKED, DEVICES)
    assert State(tmp_path).load(ASKED) == tuple(replace(device, source=Source.STATE) for device in DEVICES)


def test_no_state_is_none(tmp_path):
    assert State(tmp_path).load(ASKED) is None
    assert State(tmp_path / "absent").load(ASKED) is None


def test_newer_devices_replace_the_older_ones(tmp_path):
    state = State(tmp_path)
    state.keep(ASKED, DEVICES)
    newer = (replace(MDEV, identity=PciAddress(0, 1, 0, 0)), *DEVICES[1:])
    state.keep(ASKED, newer)
    assert [device.identity for device in state.load(ASKED)] == [device.identity for device in newer]
    assert [path.name for path in tmp_path.iterdir()] == ["devices.json"]


def test_state_that_cannot_be_looked_at_fails(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(Failed):
        State(tmp_path / "file").load(ASKED)


@pytest.mark.parametrize(
    "other",
    [
        intent(entry("a", display=False), entry("b", count=2)),
        intent(entry("a", display=True), entry("b", count=2), mode="append"),
        intent(entry("a", display=True)),
    ],
    ids=["display", "mode", "devices"],
)
def test_state_of_another_intent_is_refused(tmp_path, other):
    State(tmp_path).keep(ASKED, DEVICES)
    with pytest.raises(Refused, match="another intent") as raised:
        State(tmp_path).load(other)
    assert raised.value.reason is Reason.INVALID_STATE


def _edit(file, change):
    value = json.loads(file.read_text())
    change(value)
    file.write_text(json.dumps(value))


BROKEN = {
    "cut": lambda file: os.truncate(file, 100),
    "empty": lambda file: os.truncate(file, 0),
    "binary": lambda file: file.write_bytes(b"\xff\xfe\x00"),
    "too-large": lambda file: os.truncate(file, 10 * 1024 * 1024),
    "a-list": lambda file: file.write_text("[]"),
    "deep": lambda file: file.write_text("[" * 100_000),
    "version": lambda file: _edit(file, lambda value: value.update(version=2)),
    "no-devices": lambda file: _edit(file, lambda value: value.pop("devices")),
    "device-gone": lambda file: _edit(file, lambda value: value["devices"].pop()),
    "order": lambda file: _edit(file, lambda value: value["devices"].reverse()),
    "identity": lambda file: _edit(file, lambda value: value["devices"][0].update(mdevUUID="../../etc")),
    "same-device-twice": lambda file: _edit(
        file, lambda value: value["devices"][1].update(pciAddress=value["devices"][2]["pciAddress"])
    ),
    "folder": lambda file: (file.unlink(), file.mkdir()),
    "fifo": lambda file: (file.unlink(), os.mkfifo(file)),
    "link": lambda file: (
        file.rename(file.parent.parent / "elsewhere"),
        file.symlink_to(file.parent.parent / "elsewhere"),
    ),
}


@pytest.mark.parametrize("harm", BROKEN.values(), ids=BROKEN)
def test_broken_state_is_refused(tmp_path, harm):
    folder = tmp_path / "state"
    folder.mkdir()
    State(folder).keep(ASKED, DEVICES)
    harm(folder / "devices.json")
    with pytest.raises(Refused):
        State(folder).load(ASKED)


def test_state_that_cannot_be_written_fails_and_leaves_the_old_one(tmp_path):
    State(tmp_path).keep(ASKED, DEVICES)
    (tmp_path / "devices.new").mkdir()
    with pytest.raises(Failed) as raised:
        State(tmp_path).keep(ASKED, DEVICES[::-1])
    assert raised.value.reason is Reason.UNWRITABLE
    assert [device.name for device in State(tmp_path).load(ASKED)] == ["a", "b-0", "b-1"]


def test_full_disk_fails_and_leaves_the_old_one(tmp_path):
    State(tmp_path).keep(ASKED, DEVICES)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))  # as a full disk: some bytes go in, the rest does not
    try:
        with pytest.raises(Failed) as raised:
            State(tmp_path).keep(ASKED, DEVICES[::-1])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert raised.value.reason is Reason.UNWRITABLE
    assert [device.name for device in State(tmp_path).load(ASKED)] == ["a", "b-0", "b-1"]


def test_state_is_the_owner_s_alone(tmp_path):
    umask = os.umask(0)
    try:
        State(tmp_path).keep(ASKED, DEVICES)
    finally:
        os.umask(umask)
    assert (tmp_path / "devices.json").stat().st_mode & 0o777 == 0o600
