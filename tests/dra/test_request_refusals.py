"""What the grammar of `dravirt.io/devices` refuses: each wrong annotation with the path of the field at fault."""

import json

import pytest
from support.dra_inputs import ANNOTATION, MAX_MESSAGE, UNSAFE_NAMES

from dra.errors import Refused
from dra.reasons import Reason
from dra.request import MAX_ANNOTATION, parse_requests
from webhook.yamltext import load as load_yaml

LOADERS = pytest.mark.parametrize("load", [json.loads, load_yaml], ids=["json", "yaml"])


def refusal(text, load):
    with pytest.raises(Refused) as refused:
        parse_requests(text, load, path=ANNOTATION)
    assert refused.value.reason is Reason.INVALID_ANNOTATION
    assert refused.value.message.startswith(f"{refused.value.path}: ")
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < MAX_MESSAGE
    return refused.value


def entry(**fields):
    """Return a right entry with `fields` put in, or taken out where they are given as ...."""
    whole = {"name": "gpu0", "resourceClaimTemplateName": "a100"} | fields
    return {key: value for key, value in whole.items() if value is not ...}


# field of the only entry, its value, what the refusal says
FIELDS = {
    "name-absent": ("name", ..., "is required"),
    "name-null": ("name", None, "is required"),
    "name-number": ("name", 0, "must be text, got an integer: 0: put it in quotes"),
    "name-fraction": ("name", 1e3, "must be text, got a number with a fraction: 1000.0: put it in quotes"),
    "name-boolean": ("name", False, "must be text, got true or false: False: put it in quotes"),
    "name-list": ("name", ["gpu0"], "must be text, got a list"),
    "name-mapping": ("name", {"a": 1}, "must be text, got a mapping"),
    "vg06-name-dot": ("name", "gpu.a", "DNS label"),
    "vg06-name-slash": ("name", "vgpu/large", "DNS label"),
    "vg06-name-80-characters": ("name", "g" * 80, "DNS label"),
    "name-51-characters": ("name", "g" * 51, "must be at most 50 characters with its index, got 51"),
    "template-number": ("resourceClaimTemplateName", 1000, "must be text, got an integer: 1000: put it in quotes"),
    "template-boolean": ("resourceClaimTemplateName", True, "must be text, got true or false"),
    "template-list": ("resourceClaimTemplateName", ["a100"], "must be text, got a list"),
    "template-other-namespace": ("resourceClaimTemplateName", "team-b/a100", "DNS subdomain"),
    "template-254-characters": ("resourceClaimTemplateName", "t" * 254, "DNS subdomain"),
    "template-empty-label": ("resourceClaimTemplateName", "a..b", "DNS subdomain"),
    "request-empty": ("request", "", "name of a request"),
    "request-three-parts": ("request", "main/sub/x", "name of a request"),
    "request-sub-empty": ("request", "main/", "name of a request"),
    "request-main-empty": ("request", "/sub", "name of a request"),
    "request-traversal": ("request", "main/..", "name of a request"),
    "request-dot": ("request", "main.sub", "name of a request"),
    "request-64-characters": ("request", "r" * 64, "name of a request"),
    "request-number": ("request", 7, "must be text, got an integer: 7"),
    "count-0": ("count", 0, "must be between 1 and 32, got 0"),
    "count-33": ("count", 33, "must be between 1 and 32, got 33"),
    "count-negative": ("count", -1, "must be between 1 and 32, got -1"),
    "count-huge": ("count", 10**4000, "must be between 1 and 32, got a number of 13288 bits"),
    "count-true": ("count", True, "must be an integer, got true or false: True"),
    "count-text": ("count", "2", "must be an integer, got text: '2'"),
    "count-1.0": ("count", 1.0, "must be an integer, got a number with a fraction: 1.0"),
    "count-list": ("count", [1], "must be an integer, got a list"),
    "count-mapping": ("count", {}, "must be an integer, got a mapping"),
    "wh28-display-True": ("display", "True", "must be true or false, got text: 'True'"),
    "wh28-display-yes": ("display", "yes", "must be true or false, got text: 'yes'"),
    "wh28-display-enable": ("display", "enable", "must be true or false, got text: 'enable'"),
    "wh28-display-empty": ("display", "", "must be true or false, got text: ''"),
    "wh28-display-blanks": ("display", " true ", "must be true or false, got text: ' true '"),
    "display-1": ("display", 1, "must be true or false, got an integer: 1"),
    "ramfb-0": ("ramfb", 0, "must be true or false, got an integer: 0"),
    "ramfb-list": ("ramfb", [True], "must be true or false, got a list"),
    "unknown-near": ("cuont", 2, "is not a known field: did you mean count?"),
    "unknown-case": ("Name", "gpu0", "is not a known field: did you mean name?"),
    "unknown-short": ("resourceClaimTemplate", "a", "is not a known field: did you mean resourceClaimTemplateName?"),
    "unknown-far": ("uuid", "x", "is not a known field: known are name, resourceClaimTemplateName"),
    "device-class": ("deviceClassName", "gpu.nvidia.com", "not supported yet: name a ResourceClaimTemplate"),
    "device-class-null": ("deviceClassName", None, "not supported yet"),
}


@LOADERS
@pytest.mark.parametrize(("field", "value", "says"), FIELDS.values(), ids=FIELDS.keys())
def test_wrong_field_is_refused_at_its_path(load, field, value, says):
    refused = refusal(json.dumps([entry(name="right", resourceClaimTemplateName="b"), entry(**{field: value})]), load)
    assert refused.path == f"{ANNOTATION}[1].{field}"
    assert says in refused.message


@LOADERS
@pytest.mark.parametrize("text", UNSAFE_NAMES.values(), ids=UNSAFE_NAMES.keys())
def test_unsafe_text_is_refused_as_any_name(load, text):
    for field in ("name", "resourceClaimTemplateName", "resourceClaimName", "request"):
        others = {"resourceClaimTemplateName": ...} if field == "resourceClaimName" else {}
        refused = refusal(json.dumps([entry(**others | {field: text})]), load)
        loaded = load is json.loads or "\ud800" not in text  # half a character is no YAML
        assert refused.path == ANNOTATION + (f"[0].{field}" if loaded else "")


@pytest.mark.parametrize(
    ("key", "path"),
    [("", "''"), ("na\nme", "'na\\nme'"), ("n\u0430me", "'n\\u0430me'"), ("k" * 10_000, f"'{'k' * 80}'")],
    ids=["empty", "newline", "look-alike", "10000-characters"],
)
def test_hostile_field_name_is_quoted_in_the_path(key, path):
    assert refusal(json.dumps([entry(**{key: 1})]), json.loads).path == f"{ANNOTATION}[0].{path}"


# entries, path below the annotation, what the refusal says
ENTRIES = {
    "no-claim": ([entry(resourceClaimTemplateName=...)], "[0]", "needs exactly one of resourceClaimTemplateName and"),
    "null-claim": ([entry(resourceClaimTemplateName=None)], "[0]", "needs exactly one of"),
    "both-claims": ([entry(resourceClaimName="c")], "[0]", "and resourceClaimName"),
    "ramfb-without-display": ([entry(ramfb=True, display=False)], "[0].ramfb", "remove `display: false`"),
    "ramfb-of-two": ([entry(ramfb=True, count=2)], "[0].ramfb", "this entry makes 2: split it"),
    "ramfb-twice": (
        [entry(ramfb=True), entry(name="b"), entry(name="c", ramfb=True)],
        "[2].ramfb",
        "entry [0] has it already",
    ),
    "name-twice": ([entry(), entry(name="b"), entry()], "[2].name", "'gpu0' is also a device of entry [0]"),
    "name-twice-by-count": ([entry(count=3), entry(count=2)], "[1].name", "'gpu0-0' is also a device of entry [0]"),
    "name-after-expansion": ([entry(count=2), entry(name="gpu0-0")], "[1].name", "'gpu0-0' is also a device of"),
    "expansion-after-name": ([entry(name="gpu0-1"), entry(count=2)], "[1].name", "'gpu0-1' is also a device of"),
    "name-too-long-with-index": ([entry(name="g" * 49, count=2)], "[0].name", "with its index, got 51"),
    "name-too-long-with-two-digits": ([entry(name="g" * 48, count=11)], "[0].name", "with its index, got 51"),
    "no-entry": ([], "", "lists no device: add an entry, or remove the annotation"),
    "33-entries": ([entry(name=f"g{i}") for i in range(33)], "", "at most 32 devices, got 33 entries"),
    "33-devices": ([entry(count=32), entry(name="b")], "", "at most 32 devices in all, got 33"),
    "1024-devices": ([entry(name=f"g{i}", count=32) for i in range(32)], "", "in all, got 1024"),
    "entry-null": ([entry(), None], "[1]", "must be a mapping of fields, got null"),
    "entry-text": (["a100"], "[0]", "must be a mapping of fields, got text"),
    "entry-list": ([[entry()]], "[0]", "must be a mapping of fields, got a list"),
    "entry-number": ([7], "[0]", "must be a mapping of fields, got an integer"),
    "entry-empty": ([{}], "[0].name", "is required"),
    "mapping": (entry(), "", "must be a list of devices or the name of a template, got a mapping"),
    "text": ("A100", "", "must be a list of devices or the name of a template, got text"),
    "text-look-alike": ("\u0430100", "", "got text"),
    "text-254-characters": ("t" * 254, "", "got text"),
    "negative-number": (-1, "", "got an integer"),
    "first-wrong-entry-counts": ([entry(name="A"), entry(count=0)], "[0].name", "DNS label"),
}


@LOADERS
@pytest.mark.parametrize(("value", "where", "says"), ENTRIES.values(), ids=ENTRIES.keys())
def test_wrong_entries_are_refused_at_their_path(load, value, where, says):
    refused = refusal(json.dumps(value), load)
    assert refused.path == ANNOTATION + where
    assert says in refused.message


TEXTS = {
    "empty": "",
    "blanks": " \n\t ",
    "nul": "\x00",
    "nul-within": '[{"name": "gpu\x000"}]',
    "escape-sequence": "\x1b[2J",
    "byte-order-mark": "\ufeff[",
    "half-a-character": '["\ud800',
    "brackets": "[" * 10_000,
    "closed-brackets": "[" * 10_000 + "]" * 10_000,
    "braces": '{"a":' * 5_000,
    "entry-of-lists": '[{"name": ' + "[" * 900 + "]" * 900 + "}]",
    "too-long": "a" * (MAX_ANNOTATION + 1),
    "much-too-long": "[" * 10_000_000,
    "unclosed": '[{"name": "gpu0"',
    "rest-behind": '[{"name": "gpu0", "resourceClaimName": "c"}] x',
    "two-documents": "[]\n---\n[]",
    "digits": "[" + "9" * 5_000 + "]",
    "exponent": "[1e999999]",
    "not-a-number": "[NaN]",
    "path-traversal": "../../etc/passwd",
    "xml": "<!DOCTYPE x>",
    "look-alike": "\u0430100",
    "upper-case": "A100",
    "two-names": "a100 a30",
    "dots": "..",
    "dash": "-",
}


@LOADERS
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_hostile_text_is_refused_in_few_words(load, text):
    assert refusal(text, load).path.startswith(ANNOTATION)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty: name a ResourceClaimTemplate, or remove the annotation"),
        ("a" * 32_769, "must be at most 32768 characters, got 32769"),
        ("[" * 10_000, "is neither the name of a template nor YAML"),
    ],
    ids=["empty", "long", "deep"],
)
def test_refused_text_is_told_why(text, says):
    refused = refusal(text, json.loads)
    assert refused.path == ANNOTATION
    assert says in refused.message


YAML_TEXTS = {
    "alias": ("- &a {name: gpu0, resourceClaimName: c}\n- *a", ""),
    "laughs": ("- &a [x,x]\n- &b [*a,*a]\n- &c [*b,*b]\n- [*c,*c]", ""),
    "undefined-alias": ("- *" + "a" * 20_000, ""),
    "tag": ("- !!python/object/apply:os.system [reboot]", ""),
    "long-tag": ("- !" + "t" * 20_000 + " x", ""),
    "merge": ("- {<<: {name: gpu0}, resourceClaimName: c}", "[0].'<<'"),
    "key-twice": ("- {name: gpu0, name: gpu1, resourceClaimName: c}", ""),
    "key-number": ("- {1: gpu0}", "[0]"),
    "key-null": ("- {~: gpu0}", "[0]"),
    "tab": ("-\tname: gpu0\n\tcount: 1", ""),
    "name-number": ("- {name: 0, resourceClaimName: c}", "[0].name"),
    "name-boolean": ("- {name: true, resourceClaimName: c}", "[0].name"),
    "template-fraction": ("- {name: gpu0, resourceClaimTemplateName: 1e3}", "[0].resourceClaimTemplateName"),
    "template-in-quotes": ("'A100'", ""),
    "count-hexadecimal": ("- {name: gpu0, resourceClaimName: c, count: 0x2}", "[0].count"),
    "count-100000-hexadecimal-digits": (
        f"- {{name: gpu0, resourceClaimName: c, count: 0x{'f' * 30_000}}}",
        "[0].count",
    ),
    "count-yes": ("- {name: gpu0, resourceClaimName: c, count: yes}", "[0].count"),
    "display-on": ("- {name: gpu0, resourceClaimName: c, display: on}", "[0].display"),
    "comment-only": ("# nothing", ""),
}


@pytest.mark.parametrize(("text", "where"), YAML_TEXTS.values(), ids=YAML_TEXTS.keys())
def test_what_yaml_makes_of_a_text_is_refused_at_its_path(text, where):
    assert refusal(text, load_yaml).path == ANNOTATION + where


@pytest.mark.parametrize("number", [16**30_000, -(16**30_000)], ids=["huge", "minus-huge"])
@pytest.mark.parametrize("field", ["name", "count", "display"])
def test_number_that_python_cannot_spell_is_refused(number, field):
    # A loader that knows YAML's 0x... yields numbers of any length.
    refused = refusal("[...]", lambda _: [entry(**{field: number})])
    assert refused.path == f"{ANNOTATION}[0].{field}"
    assert "a number of 120001 bits" in refused.message


def test_long_complaint_of_a_loader_is_cut():
    def load(text):
        raise ValueError(f"cannot read {text}")

    refused = refusal("[" * 30_000, load)
    assert refused.message.startswith(f"{ANNOTATION}: is neither the name of a template nor YAML: cannot read [[[")
