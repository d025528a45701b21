"""docs/annotation.md says what the webhooks say."""

from collections.abc import Iterator
from typing import Any

import pytest
from support.admission import (
    APPEND,
    DEVICES,
    PLACEHOLDER,
    create,
    launcher_pod,
    update,
    vm,
    vmi,
)
from support.examples import ROOT
from support.markdown import codes, rows, section

from dra.errors import Refused
from dra.request import _FIELDS
from webhook import pod as pods
from webhook import vm as vms
from webhook import vmi as vmis
from webhook.annotation import FIELD, read_asked
from webhook.decision import Decision

PAGE = ROOT / "docs" / "annotation.md"
ONE = "[{name: gpu0, resourceClaimTemplateName: a100}]"
MINE = "[{name: gpu0, resourceClaimName: mine}]"
WRONG = "[]"
PLACEHOLDER_GPU = {"name": "gpu0", "deviceName": "dravirt.io/gpu"}

# Annotations that the table describes in words, since they are too long to show or no text.
DESCRIBED = {
    "longer than 32768 characters": "a" * 40_000,
    "no text": [],
    "more than 32 entries": str([{}] * 40),
}


def shown_denials() -> Iterator[Any]:
    for annotation, denial in rows(section(PAGE, "### The annotation is wrong")):
        described = [value for words, value in DESCRIBED.items() if annotation.startswith(words)]
        value = described[0] if described else codes(annotation)[0]
        yield pytest.param("" if value == '""' else value, codes(denial)[0].replace(r"\|", "|"), id=annotation)


@pytest.mark.parametrize(("annotation", "denial"), list(shown_denials()))
def test_the_annotation_is_denied_in_the_words_shown(annotation, denial):
    with pytest.raises(Refused) as refused:
        read_asked(annotation, FIELD)
    assert refused.value.message == FIELD + denial
    assert refused.value.reason == "invalid_annotation"


def naming_a_claim(item, claim):
    item["spec"]["resourceClaims"] = [{"name": "own", "resourceClaimName": claim}]
    return item


# A VMI for each row of the table of what does not fit, in its order.
UNFIT = [
    (vmi(ONE, gpus=[{"name": "gpu0", "deviceName": "nvidia.com/A40"}]), PLACEHOLDER),
    (vmi(ONE, gpus=[{"name": "own", "claimName": "c", "requestName": "r"}]), PLACEHOLDER),
    (naming_a_claim(vmi(MINE), "mine"), PLACEHOLDER),
    (vmi(ONE, gpus=[PLACEHOLDER_GPU | {"name": "gpu9"}]), PLACEHOLDER),
    (vmi(ONE, gpus=[PLACEHOLDER_GPU]), APPEND),
    (vmi(ONE, hostDevices=[PLACEHOLDER_GPU]), PLACEHOLDER),
]


def test_what_does_not_fit_the_vm_is_denied_in_the_words_shown():
    shown = [(codes(row[1])[0], codes(row[2])[0]) for row in rows(section(PAGE, "### It does not fit the VM"))]
    decisions = [vmis.decide(create(item), config) for item, config in UNFIT]
    assert [(denial + f" (reason: {reason})", reason) for denial, reason in shown] == [
        (decision.message, decision.reason) for decision in decisions
    ]


def running(item: dict[str, Any]) -> dict[str, Any]:
    return item | {"status": {"created": True}}


def with_strategy(item: dict[str, Any]) -> dict[str, Any]:
    item["spec"]["evictionStrategy"] = "LiveMigrate"
    return item


def without_hole(item: dict[str, Any]) -> dict[str, Any]:
    item["metadata"]["annotations"]["kubevirt.io/disablePCIHole64"] = "true"
    return item


def target(item: dict[str, Any]) -> dict[str, Any]:
    item["metadata"]["labels"]["kubevirt.io/migrationJobUID"] = "1"
    return item


def warned() -> list[Decision]:
    """Return a decision for each row of the table of warnings, in its order."""
    return [
        vms.decide(update(running(vm(template="a")), running(vm(template="b"))), PLACEHOLDER),
        vms.decide(create(vm(metadata="a", template="b")), PLACEHOLDER),
        vmis.decide(create(vmi(MINE)), PLACEHOLDER),
        vmis.decide(create(with_strategy(vmi(ONE))), PLACEHOLDER),
        vmis.decide(create(without_hole(vmi(ONE))), PLACEHOLDER),
        vmis.decide(create(vmi(ONE)), APPEND),
        vms.decide(update(vm(metadata="a", template=WRONG), vm(template=WRONG)), PLACEHOLDER),
        pods.decide(create(target(launcher_pod(ONE, placeholders=None))), PLACEHOLDER),
    ]


def test_warnings_are_given_in_the_words_shown():
    shown = [codes(row[0])[0] for row in rows(section(PAGE, "## Warnings"))]
    given = [decision.warnings for decision in warned()]
    assert all(len(warnings) == 1 for warnings in given)
    for words, (warning,) in zip(shown, given, strict=True):
        assert warning.startswith(words)
        assert warning == words or "will not start" in words


def test_the_table_of_fields_has_them_all():
    fields = rows(section(PAGE, "## What it holds"))
    assert [codes(row[0])[0] for row in fields] == list(_FIELDS)


def test_denials_name_the_annotation_where_the_page_says():
    denied = vms.decide(create(vm(template=WRONG)), PLACEHOLDER)
    assert denied.message.startswith("spec.template.metadata.annotations[dravirt.io/devices]: ")
    assert f"metadata.annotations[{DEVICES}]" == FIELD
