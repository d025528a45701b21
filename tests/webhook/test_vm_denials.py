"""Wrong annotations on a VM: denied with the path of the field on a new value, never on a stored one."""

import json

import pytest
from support.admission import APPEND, PLACEHOLDER, create, update, vm, vmi

from dra.reasons import Reason
from webhook import vm as vms
from webhook import vmi as vmis

T = "resourceClaimTemplateName"
ONE = {"name": "gpu0", T: "t"}


def entries(*items: object) -> str:
    return json.dumps(items)


# name -> (annotation, what follows the path of the annotation in the denial)
WRONG = {
    # not a list of devices
    "empty": ("", ": is empty: name a ResourceClaimTemplate, or remove the annotation"),
    "blank": (" \n\t", ": is empty"),
    "upper case": ("A100-1-10C", ": must be a list of devices or the name of a template, got text"),
    "true": ("True", ": must be a list of devices or the name of a template, got true or false"),
    "two names": ("a100 a40", ": must be a list of devices or the name of a template, got text"),
    "name with a slash": ("team/a100", ": must be a list of devices or the name of a template, got text"),
    "name too long": ("a" * 254, ": must be a list of devices or the name of a template, got text"),
    "mapping": (json.dumps(ONE), ": must be a list of devices or the name of a template, got a mapping"),
    "no device": ("[]", ": lists no device"),
    "null": ("~", ": must be a list of devices or the name of a template, got null"),
    "cut JSON": ('[{"name": "gpu0"', ": is neither the name of a template nor YAML: line "),
    "bad YAML": ("- name: gpu0\n   count: 2", ": is neither the name of a template nor YAML: line 2"),
    "list of texts": ("- a100\n- a40", "[0]: must be a mapping of fields, got text"),
    # wrong entries
    "no name": (entries({T: "t"}), "[0].name: is required"),
    "name of a number": (f"- {{name: 0, {T}: t}}", "[0].name: must be text, got an integer: 0: put it in quotes"),
    "name in upper case": (entries(ONE | {"name": "GPU0"}), "[0].name: must be a DNS label"),
    "name with a dot": (entries(ONE | {"name": "gpu.0"}), "[0].name: must be a DNS label"),
    "name too long in an entry": (entries(ONE | {"name": "g" * 51}), "[0].name: must be at most 50 characters"),
    "name too long with its index": (entries(ONE | {"name": "g" * 49, "count": 2}), "[0].name: must be at most 50"),
    "no claim": (entries({"name": "gpu0"}), f"[0]: needs exactly one of {T} and resourceClaimName"),
    "two claims": (entries(ONE | {"resourceClaimName": "c"}), f"[0]: needs exactly one of {T} and resourceClaimName"),
    "template is no name": (entries({"name": "gpu0", T: "T_1"}), f"[0].{T}: must be a Kubernetes object name"),
    "claim is no name": (entries({"name": "gpu0", "resourceClaimName": "-c"}), "[0].resourceClaimName: must be a Kub"),
    "device class": (entries({"name": "gpu0", "deviceClassName": "gpu"}), "[0].deviceClassName: not supported yet"),
    "misspelt field": (entries(ONE | {"Count": 2}), "[0].Count: is not a known field: did you mean count?"),
    "unknown field": (entries(ONE | {"node": "a"}), "[0].node: is not a known field"),
    "request is no name": (entries(ONE | {"request": "a/b/c"}), "[0].request: must be the name of a request"),
    "count of none": (entries(ONE | {"count": 0}), "[0].count: must be between 1 and 32, got 0"),
    "count too large": (entries(ONE | {"count": 33}), "[0].count: must be between 1 and 32, got 33"),
    "count in quotes": (entries(ONE | {"count": "2"}), "[0].count: must be an integer, got text: '2'"),
    "count with a fraction": (
        entries(ONE | {"count": 1.5}),
        "[0].count: must be an integer, got a number with a fraction",
    ),
    "count of truth": (entries(ONE | {"count": True}), "[0].count: must be an integer, got true or false"),
    "display in words": (
        f"- {{name: gpu0, {T}: t, display: yes}}",
        "[0].display: must be true or false, got text: 'yes'",
    ),
    "display as a number": (entries(ONE | {"display": 1}), "[0].display: must be true or false, got an integer: 1"),
    "ramfb without display": (
        entries(ONE | {"display": False, "ramfb": True}),
        "[0].ramfb: a boot console (ramfb) needs",
    ),
    "ramfb for two": (entries(ONE | {"count": 2, "ramfb": True}), "[0].ramfb: one device of a VM can have ramfb"),
    # entries that contradict each other
    "name twice": (entries(ONE, ONE | {T: "u"}), "[1].name: 'gpu0' is also a device of entry [0]"),
    "name of another's index": (
        entries({"name": "g", T: "t", "count": 2}, {"name": "g-1", T: "u"}),
        "[1].name: 'g-1' is",
    ),
    "two boot consoles": (
        entries(ONE | {"ramfb": True}, {"name": "b", T: "t", "ramfb": True}),
        "[1].ramfb: one device",
    ),
    "claim twice": (
        entries({"name": "a", "resourceClaimName": "c"}, {"name": "b", "resourceClaimName": "c"}),
        "[1]: takes all devices of claim 'c', as 'a' does",
    ),
    "claim with and without request": (
        entries({"name": "a", "resourceClaimName": "c"}, {"name": "b", "resourceClaimName": "c", "request": "r"}),
        "[1]: one of 'b' and 'a' takes all devices of claim 'c'",
    ),
    "request twice": (
        entries(ONE | {"request": "r"}, {"name": "b", T: "t", "request": "r/sub"}),
        "[1].request: takes request 'r' of template 't', as 'gpu0' does",
    ),
    "too many entries": (
        entries(*({"name": f"g{i}", T: "t"} for i in range(33))),
        ": must hold at most 32 devices, got 33",
    ),
    "too many devices": (
        entries(*({"name": f"g{i}", T: "t", "count": 17} for i in range(2))),
        ": must ask for at most 32 devices in all, got 34",
    ),
    # hostile
    "huge": ("a" * 40_000, ": must be at most 32768 characters, got 40000"),
    "huge blank": (" " * 40_000, ": must be at most 32768 characters, got 40000"),
    "deep JSON": ("[" * 20_000, ": is neither the name of a template nor YAML"),
    "deep YAML": ("- " * 10_000, ": is neither the name of a template nor YAML"),
    "billion laughs": (
        "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]",
        ": is neither the name of a template nor YAML: line 1",
    ),
    "YAML tag": ("!!python/object/apply:os.system ['true']", ": is neither the name of a template nor YAML: line 1"),
    "two documents": (f"- {{name: gpu0, {T}: t}}\n---\n- x", ": is neither the name of a template nor YAML: line 2"),
    "duplicate key": (f"- name: gpu0\n  name: gpu1\n  {T}: t", ": is neither the name of a template nor YAML: line 2"),
    "merge key": (f"- {{<<: {{name: gpu0}}, {T}: t}}", "[0].'<<': is not a known field"),
    "look-alike name": (entries(ONE | {"name": "\u0433pu0"}), "[0].name: must be a DNS label"),
    "name with a line break": (entries(ONE | {"name": "gpu0\n"}), "[0].name: must be a DNS label"),
    "path for a template": (
        entries({"name": "gpu0", T: "../../secrets/t"}),
        f"[0].{T}: must be a Kubernetes object name",
    ),
    "claim of another namespace": (
        entries({"name": "gpu0", "resourceClaimName": "kube-system/c"}),
        "[0].resourceClaimName: must",
    ),
    "variable for a template": (entries({"name": "gpu0", T: "$(HOME)"}), f"[0].{T}: must be a Kubernetes object name"),
    "number of 5000 digits": (f"- {{name: gpu0, {T}: t, count: {'9' * 5000}}}", ""),
    "hexadecimal count": (f"- {{name: gpu0, {T}: t, count: 0x1F}}", "[0].count: must be an integer, got text: '0x1F'"),
    "infinite count": (
        f"- {{name: gpu0, {T}: t, count: .inf}}",
        ": is neither the name of a template nor YAML: line 1",
    ),
    "not a number": ('[{"name": "gpu0", "count": NaN}]', ": is neither the name of a template nor YAML"),
    "null byte": ("a\0b", ""),
    "control characters": ("\x1b[31m", ""),
}
METADATA = "metadata.annotations[dravirt.io/devices]"
TEMPLATE = f"spec.template.{METADATA}"
wrong = pytest.mark.parametrize(("text", "rest"), WRONG.values(), ids=WRONG)


def test_there_are_many_kinds_of_wrong():
    assert len(WRONG) >= 60


def assert_denied(decision, path: str, rest: str) -> None:
    assert (decision.allowed, decision.reason, tuple(decision.patch)) == (False, Reason.INVALID_ANNOTATION, ())
    assert decision.message.startswith(path + rest)
    assert decision.message.endswith("(reason: invalid_annotation)")
    assert len(decision.message) < 600
    assert decision.message.isprintable()


@wrong
def test_new_value_on_metadata_is_denied(text: str, rest: str):
    assert_denied(vms.decide(create(vm(text)), PLACEHOLDER), METADATA, rest)
    assert_denied(vms.decide(update(vm("ok", "ok"), vm(text, "ok")), PLACEHOLDER), METADATA, rest)


@wrong
def test_new_value_in_the_template_is_denied(text: str, rest: str):
    assert_denied(vms.decide(create(vm(None, text)), PLACEHOLDER), TEMPLATE, rest)
    assert_denied(vms.decide(update(vm("ok", "ok"), vm("ok", text)), APPEND), TEMPLATE, rest)


@wrong
def test_stored_value_is_not_denied(text: str, rest: str):
    for old in (vm(text), vm(None, text), vm(text, text)):
        now = json.loads(json.dumps(old))
        now["spec"]["runStrategy"] = "Halted"
        decision = vms.decide(update(old, now), PLACEHOLDER)
        assert (decision.allowed, decision.reason, tuple(decision.patch)) == (True, Reason.UNCHANGED, ())


@wrong
def test_vmi_that_comes_without_a_vm_is_denied(text: str, rest: str):
    assert_denied(vmis.decide(create(vmi(text)), PLACEHOLDER), METADATA, rest)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (5, "an integer"),
        (1e3, "a number with a fraction"),
        (True, "true or false"),
        ([ONE], "a list"),
        (ONE, "a mapping"),
    ],
    ids=["integer", "1e3", "truth", "list", "mapping"],
)
def test_template_value_that_is_no_text_is_denied(value: object, kind: str):
    """KubeVirt's schema leaves a template's metadata open, so YAML without quotes or | gets as far as here."""
    for request in (create(vm(None, value)), update(vm(None, "ok"), vm(None, value)), create(vm("ok", value))):
        decision = vms.decide(request, PLACEHOLDER)
        assert_denied(decision, TEMPLATE, f": must be text, got {kind}: put quotes around it, or | before a list")


@pytest.mark.parametrize("value", ["1e3", "no", "2024-01-01", "true", "null", "0x1f", "1.5", "010"])
def test_name_that_yaml_would_take_for_something_else_is_a_template(value: str):
    assert vms.decide(create(vm(None, value)), PLACEHOLDER).reason is Reason.ACCEPTED


@pytest.mark.parametrize(
    ("value", "taken"), [("True", False), ("yes", True), ("enable", True), ("", False), (" true ", True)], ids=repr
)
def test_wh28_value_is_a_template_or_denied_but_never_without_effect(value: str, taken: bool):
    """The annotation is no switch: what looks like one names a template, blanks around it trimmed, or is refused."""
    decision = vms.decide(create(vm(value)), PLACEHOLDER)
    assert (decision.allowed, decision.reason) == (taken, Reason.COPIED if taken else Reason.INVALID_ANNOTATION)
    assert vmis.decide(create(vmi(value)), PLACEHOLDER).allowed is taken
