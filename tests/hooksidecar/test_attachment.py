"""The attachment: it tries as long as it may, says the same thing once, and outlives a fault of ours."""

import logging

import pytest
from support.claimed import allocated, entry, intent, template_folder, write_metadata
from support.domains import host_devices
from support.nodetree import A100_MDEV, build
from support.sidecars import DOMAIN

from dra.device import Source
from dra.errors import Failed, Refused
from hooksidecar.attachment import Attachment, Budget
from hooksidecar.metadatafiles import MetadataFiles
from hooksidecar.state import State
from hooksidecar.sysfs import HostTree

ASKED = intent(entry(request="vgpu"))


@pytest.fixture
def attachment(tmp_path):
    """Return an attachment on a node with an A100 in MIG mode, with these sources or with metadata files."""
    build(tmp_path / "node", "a100-mig-mdev")
    (tmp_path / "state").mkdir()

    def make(*sources, budget):
        sources = sources or (MetadataFiles(tmp_path / "metadata"),)
        return Attachment(ASKED, sources, HostTree(tmp_path / "node"), State(tmp_path / "state"), budget=budget)

    return make


def allocate(tmp_path, *, request="vgpu"):
    write_metadata(template_folder(tmp_path / "metadata", request), allocated("v0", mdevUUID=A100_MDEV))


class Faulty:
    """A source with a fault."""

    name = Source.SERVICE

    def find(self, wanted, taken):
        raise KeyError(len(wanted), len(taken))


def test_start_is_tried_again_after_every_pause(attachment, tmp_path):
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 3:
            allocate(tmp_path)

    one = attachment(budget=Budget(start=30, call=0))
    one.prepare(pause=pause)
    assert pauses == [0.5, 0.5, 0.5]
    assert list(host_devices(one.define(DOMAIN, b""))) == ["ua-gpu-gpu0"]


def test_refusal_may_be_mended_at_the_start_only(attachment, tmp_path):
    allocate(tmp_path, request="other")
    one = attachment(budget=Budget(start=0.7, call=60))
    pauses = []
    one.prepare(pause=pauses.append)
    assert pauses
    with pytest.raises(Refused, match="there is other"):
        one.define(DOMAIN, b"{}")


def test_what_stays_the_same_is_logged_once(attachment, tmp_path, caplog):
    caplog.set_level(logging.WARNING, "hooksidecar.attachment")
    attachment(budget=Budget(start=0.7, call=0)).prepare(pause=lambda _: None)
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]


def test_fault_of_ours_does_not_keep_the_sidecar_from_serving(attachment, caplog):
    one = attachment(Faulty(), budget=Budget(start=1, call=1))
    one.prepare(pause=lambda _: None)
    assert caplog.records[-1].exc_info
    with pytest.raises(KeyError):
        one.define(DOMAIN, b"{}")


def test_state_is_taken_before_any_source(attachment, tmp_path):
    allocate(tmp_path)
    attachment(budget=Budget(start=1, call=1)).prepare(pause=lambda _: None)
    again = attachment(Faulty(), budget=Budget(start=1, call=1))
    assert again.recall()
    assert list(host_devices(again.define(DOMAIN, b"{}"))) == ["ua-gpu-gpu0"]


def test_without_state_nothing_is_recalled(attachment):
    one = attachment(budget=Budget(start=0, call=0))
    assert not one.recall()
    with pytest.raises(Failed):
        one.define(DOMAIN, b"{}")
