"""Warnings: short lines about what is right but will surprise."""

import json

import pytest
from support.admission import vmi

from dra.intent import Mode
from webhook.advice import advice
from webhook.annotation import FIELD, read_asked

TEMPLATE = read_asked("a100-1-10c", FIELD)
MIGRATE = "evictionStrategy LiveMigrate: a VM with a GPU cannot migrate, so it blocks node drains"
HOLE = "kubevirt.io/disablePCIHole64 takes away the window that the memory of a GPU is mapped into"
MEMLOCK = "append mode: KubeVirt knows of no device, so memlock must come from reservedOverhead or the node"


def vmi_with(strategy: object = None, hole: object = None) -> dict:
    item = vmi()
    item["spec"]["evictionStrategy"] = strategy
    item["metadata"]["annotations"]["kubevirt.io/disablePCIHole64"] = hole
    return item


def test_plain_vmi_gets_no_warning():
    assert advice(TEMPLATE, vmi(), Mode.PLACEHOLDER) == []


@pytest.mark.parametrize(
    ("strategy", "lines"),
    [("LiveMigrate", [MIGRATE]), ("LiveMigrateIfPossible", []), ("None", []), ("External", []), (["LiveMigrate"], [])],
)
def test_only_the_strategy_that_blocks_drains_is_warned_of(strategy: object, lines: list):
    assert advice(TEMPLATE, vmi_with(strategy), Mode.PLACEHOLDER) == lines


@pytest.mark.parametrize(("hole", "lines"), [("true", [HOLE]), ("false", []), (True, [])])
def test_small_pci_window_is_warned_of(hole: object, lines: list):
    assert advice(TEMPLATE, vmi_with(hole=hole), Mode.PLACEHOLDER) == lines


def test_each_claim_used_directly_is_warned_of_once():
    entries = [
        {"name": "a", "resourceClaimName": "shared", "request": "r0"},
        {"name": "b", "resourceClaimName": "shared", "request": "r1"},
        {"name": "c", "resourceClaimName": "other"},
        {"name": "d", "resourceClaimTemplateName": "t"},
    ]
    assert advice(read_asked(json.dumps(entries), FIELD), vmi(), Mode.PLACEHOLDER) == [
        "claim 'shared' is used directly: clones, pools and restores would share it",
        "claim 'other' is used directly: clones, pools and restores would share it",
    ]


def test_vg11_append_mode_says_where_locked_memory_must_come_from():
    assert advice(TEMPLATE, vmi(), Mode.APPEND) == [MEMLOCK]


def test_every_line_fits_into_the_length_that_kubernetes_advises():
    entries = [{"name": "a", "resourceClaimName": "c" * 253}]
    lines = advice(read_asked(json.dumps(entries), FIELD), vmi_with("LiveMigrate", "true"), Mode.APPEND)
    assert len(lines) == 4
    assert max(len(line) for line in lines) <= 120
