"""The annotation: what an owner means is what is read, however it is spelt, and nothing else is."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra.claims import pod_claims
from dra.errors import Refused
from dra.intent import Intent, Mode, read_intent
from dra.request import parse_requests
from webhook.yamltext import load

MANY = settings(max_examples=100, deadline=None, database=None)
PATH = "metadata.annotations[dravirt.io/devices]"

labels = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
names = labels | st.sampled_from(["1e3", "no", "0x1f", "2024-01-01", "null", "y", "1", "0b1", "123e4"])


@st.composite
def entries(draw):
    """Return a valid list of entries: names that cannot meet, and one claim for each."""
    count = draw(st.integers(1, 6))
    return [
        {"name": f"d{number}", draw(st.sampled_from(["resourceClaimTemplateName", "resourceClaimName"])): claim}
        | draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "request": names | st.tuples(names, names).map("/".join),
                    "count": st.integers(1, 5),
                    "display": st.booleans() | st.none(),
                },
            )
        )
        for number, claim in enumerate(draw(st.lists(names, min_size=count, max_size=count, unique=True)))
    ]


def parse(text):
    return parse_requests(text, load, path=PATH)


def spellings(value):
    """Return the ways in which a person or a tool writes a list of entries: JSON, and YAML in three styles."""
    yield json.dumps(value)
    yield json.dumps(value, indent="\t")
    yield block(value, json.dumps)
    yield block(value, plain)
    yield "- " + "\n- ".join(json.dumps(entry).replace('"', "'") for entry in value)


def block(value, scalar):
    """Return the list in YAML's block style."""
    return "".join(
        f"{'  ' if number else '- '}{field}: {scalar(item)}\n"
        for entry in value
        for number, (field, item) in enumerate(entry.items())
    )


def plain(item):
    """Return a scalar without quotes where that means the same."""
    return item if isinstance(item, str) and item and load(item) == item else json.dumps(item)


@MANY
@given(entries())
def test_all_spellings_of_a_list_ask_for_the_same(value):
    first, *others = [parse(text) for text in spellings(value)]
    assert all(other == first for other in others)
    assert [request.name for request in first] == [entry["name"] for entry in value]
    for request, entry in zip(first, value, strict=True):
        assert (request.template, request.claim) == (
            entry.get("resourceClaimTemplateName"),
            entry.get("resourceClaimName"),
        )
        assert (request.request, request.count) == (entry.get("request"), entry.get("count", 1))


@MANY
@given(entries())
def test_what_is_asked_for_reaches_the_sidecar_unchanged(value):
    requests = parse(json.dumps(value))
    claims = pod_claims(requests, path=PATH)
    intent = Intent.of(Mode.PLACEHOLDER, claims, requests)
    assert read_intent(intent.to_json(), path="intent") == intent
    assert tuple(device.request for device in intent.devices) == requests
    assert {device.pod_claim for device in intent.devices} == {claim.name for claim in claims}
    by_claim = {(claim.template, claim.claim) for claim in claims if claim.claim}
    assert len(by_claim) == len([claim for claim in claims if claim.claim]), "one pod claim for each ResourceClaim"


@MANY
@given(names)
def test_short_form_is_one_device_of_that_template(template):
    [request] = parse(template)
    assert (request.name, request.template, request.count) == ("gpu0", template, 1)
    assert parse(f" {template}\n") == (request,)


breakages = st.sampled_from(
    [
        ("name", None),
        ("name", "GPU"),
        ("name", 7),
        ("count", 0),
        ("count", 33),
        ("count", "2"),
        ("count", 1.0),
        ("count", True),
        ("display", "yes"),
        ("display", 1),
        ("request", "a/b/c"),
        ("request", ""),
        ("resourceClaimName", "UPPER"),
        ("resourceClaimTemplateName", []),
        ("colour", "red"),
        ("deviceClassName", "gpu"),
        ("ramfb", {}),
    ]
)


@MANY
@given(entries(), st.data(), breakages)
def test_one_wrong_field_is_refused_where_it_stands(value, data, breakage):
    index = data.draw(st.integers(0, len(value) - 1))
    field, wrong = breakage
    value[index][field] = wrong
    for text in spellings(value):
        with pytest.raises(Refused) as refused:
            parse(text)
        assert refused.value.path.startswith(f"{PATH}[{index}]")


@settings(MANY, max_examples=200)
@given(
    entries().map(lambda value: block(value, plain)),
    st.integers(0, 400),
    st.integers(0, 6),
    st.sampled_from(["", "&a ", "*a", "!!int ", "- ", ": ", "\t", "\n", "'", '"', "{", "]", "#", "|", "\x00", "\u0430"])
    | st.text(max_size=4),
)
def test_text_that_somebody_damaged_is_read_or_refused(text, at, length, junk):
    at %= len(text)
    refusal = ""
    try:
        requests = parse(text[:at] + junk + text[at + length :])
        pod_claims(requests, path=PATH)
    except Refused as error:
        refusal = error.message
    assert refusal.startswith(PATH) or 1 <= sum(request.count for request in requests) <= 32
    assert len(refusal) < 1200
