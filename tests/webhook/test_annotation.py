"""The annotation as it stands on an object: found, read once, refused with its path."""

import pytest
from support.admission import DEVICES

from dra.errors import Refused
from dra.reasons import Reason
from webhook.annotation import FIELD, TEMPLATE_FIELD, annotation_of, read_asked


def test_fields_are_named_as_a_person_finds_them():
    assert FIELD == "metadata.annotations[dravirt.io/devices]"
    assert TEMPLATE_FIELD == "spec.template.metadata.annotations[dravirt.io/devices]"


@pytest.mark.parametrize(
    "item",
    [{}, {"metadata": None}, {"metadata": {"annotations": None}}, {"metadata": {"annotations": {DEVICES: None}}}],
    ids=["no metadata", "null metadata", "null annotations", "null value"],
)
def test_object_without_the_annotation_has_not_opted_in(item: dict):
    assert annotation_of(item) is None


def test_empty_annotation_is_an_opt_in_and_refused():
    assert annotation_of({"metadata": {"annotations": {DEVICES: ""}}}) == ""
    with pytest.raises(Refused, match="is empty: name a ResourceClaimTemplate, or remove the annotation"):
        read_asked("", FIELD)


@pytest.mark.parametrize("value", [5, True, 1.5, ["a"], {"name": "a"}], ids=["int", "bool", "float", "list", "mapping"])
def test_value_that_is_no_text_is_refused(value: object):
    with pytest.raises(Refused, match=r"must be text, got .*: put quotes around it, or \| before a list") as caught:
        read_asked(value, TEMPLATE_FIELD)
    assert (caught.value.reason, caught.value.path) == (Reason.INVALID_ANNOTATION, TEMPLATE_FIELD)


def test_devices_and_claims_are_in_the_order_in_which_they_are_asked_for():
    asked = read_asked(
        "- {name: b, resourceClaimName: shared, request: r1}\n"
        "- {name: a, resourceClaimTemplateName: two, count: 2}\n"
        "- {name: c, resourceClaimName: shared, request: r0}\n",
        FIELD,
    )
    assert asked.device_names == ("b", "a-0", "a-1", "c")
    assert [claim.as_pod_claim() for claim in asked.claims] == [
        {"name": "dravirt-b", "resourceClaimName": "shared"},
        {"name": "dravirt-a-0", "resourceClaimTemplateName": "two"},
    ]
    assert [reference for claim in asked.claims for reference in claim.as_container_claims()] == [
        {"name": "dravirt-b", "request": "r1"},
        {"name": "dravirt-b", "request": "r0"},
        {"name": "dravirt-a-0"},
    ]


def test_short_form_is_one_device_from_that_template():
    asked = read_asked(" a100-1-10c\n", FIELD)
    assert asked.device_names == ("gpu0",)
    assert asked.claims[0].as_pod_claim() == {"name": "dravirt-gpu0", "resourceClaimTemplateName": "a100-1-10c"}
