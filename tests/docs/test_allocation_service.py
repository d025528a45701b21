"""docs/allocation-service.md says what the service does."""

import json

import pytest
import yaml
from support.examples import ROOT, fenced
from support.markdown import codes, rows, section

from dra.answer import answer_to_json, read_answer
from dra.contract import ALLOCATIONS_PATH, INJECTED_LABEL, MAX_DEVICES
from dra.reasons import Reason
from webhook import kubedra, lookups
from webhook.allocations import gate, reservation, service

PAGE = ROOT / "docs" / "allocation-service.md"
ROLE = ROOT / "deploy" / "base" / "rbac-allocations.yaml"

BOUNDS = {
    "rivals": (f"up to {reservation.MAX_RIVALS} reads of pods", "## Bounds"),
    "pages": (f"in pages of {kubedra.PAGE} and at most {kubedra.MAX_PAGES} of them", "## Bounds"),
    "seconds": (f"takes {service.SECONDS:g} s at most and holds at most {MAX_DEVICES} devices", "## Bounds"),
    "gate": (f"{gate.AT_A_TIME} answers are under way at a time, {gate.WAITING} wait", "## Bounds"),
    "look-ups": (f"This takes {lookups.SECONDS:g} s at most", "## Warnings at admission"),
}


@pytest.mark.parametrize(("words", "heading"), BOUNDS.values(), ids=BOUNDS)
def test_the_bounds_are_those_in_force(words, heading):
    assert words in " ".join(section(PAGE, heading).split())


def test_the_answer_shown_is_one_that_a_sidecar_reads():
    (shown,) = fenced(section(PAGE, "## What is asked and answered"), "json")
    assert answer_to_json(read_answer(shown.encode(), path="shown")) == json.loads(shown)
    assert ALLOCATIONS_PATH in section(PAGE, "## What is asked and answered")


def test_the_rights_named_are_those_of_the_role():
    rules = yaml.safe_load(ROLE.read_text())["rules"]
    text = section(PAGE, "## Rights")
    assert sorted(resource for rule in rules for resource in rule["resources"]) == sorted(
        name for name in codes(text) if name.islower() and "/" not in name
    )
    assert {verb for rule in rules for verb in rule["verbs"]} == {"create", "get", "list"}


def test_the_policy_selects_injected_pods():
    (policy,) = fenced(section(PAGE, "## What the network must let through"), "yaml")
    assert yaml.safe_load(policy)["spec"]["podSelector"]["matchLabels"] == {INJECTED_LABEL: "true"}


def test_codes_in_the_table_of_symptoms_are_reasons():
    texts = [codes(row[0])[0] for row in rows(section(PAGE, "## When it does not answer"))]
    assert [text.split()[1] in list(Reason) for text in texts if text.startswith("503 ")] == [True]
