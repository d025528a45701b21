"""AdmissionReview v1 on the wire, as the API server writes and reads it."""

import base64
import json

import pytest
from support.reviews import POD, UID, VM, review

from dra.errors import Refused
from dra.reasons import Reason
from webhook.decision import AdmissionRequest, Decision
from webhook.patch import Patch, add
from webhook.review import read_review, write_review


def read_pod(value):
    return read_review(json.dumps(value).encode(), group="", kind="Pod")


def test_the_request_is_read_from_the_review():
    pod = {"metadata": {"annotations": {"ä": "ü"}}, "spec": {"containers": []}}

    request = read_pod(review(pod, name="p", dryRun=True, operation="UPDATE", oldObject={"metadata": {}}))

    assert request == AdmissionRequest(
        uid=UID,
        kind="Pod",
        operation="UPDATE",
        namespace="team-a",
        name="p",
        username="system:serviceaccount:kubevirt:kubevirt-controller",
        object=pod,
        old_object={"metadata": {}},
    )


def test_wh04_a_pod_without_a_name_is_read():
    value = review({"metadata": {"generateName": "virt-launcher-vm-"}})
    assert "name" not in value["request"]

    assert read_pod(value).name == ""


def test_wh05_the_namespace_is_that_of_the_request():
    assert read_pod(review({"metadata": {}}, namespace="team-a")).namespace == "team-a"


@pytest.mark.corpus
def test_wh05_as_reported(bug_inputs):
    body = (bug_inputs / "wh05-generatename-no-namespace.admissionreview.json").read_bytes()

    request = read_review(body, group="", kind="Pod")

    assert (request.namespace, request.name) == ("team-a", "")


def without(value, *path):
    """Return the review without the field at `path`."""
    parent = value
    for key in path[:-1]:
        parent = parent[key]
    del parent[path[-1]]
    return value


REFUSED = {
    "another kind of review": (review() | {"kind": "ConversionReview"}, "kind: must be AdmissionReview"),
    "no kind": (without(review(), "kind"), "kind: must be AdmissionReview, got null"),
    "v1beta1": (
        review() | {"apiVersion": "admission.k8s.io/v1beta1"},
        "apiVersion: must be admission.k8s.io/v1, got text: 'admission.k8s.io/v1beta1': set",
    ),
    "no version": (without(review(), "apiVersion"), "apiVersion: must be admission.k8s.io/v1, got null"),
    "no request": (without(review(), "request"), "request.kind: this path answers for Pod"),
    "request is a list": (review() | {"request": []}, "request: expected `object`, got `array`"),
    "a list": ([], "the body: expected `object`, got `array`"),
    "null": (None, "the body: expected `object`, got `null`"),
    "an object of another kind": (
        review(kind=VM),
        "request.kind: this path answers for Pod of '', got text: 'VirtualMachine' of text: 'kubevirt.io'",
    ),
    "a kind of that name in another group": (review(kind=POD | {"group": "metrics.k8s.io"}), "request.kind: this path"),
    "kind is text": (
        review(kind=None) | {"request": review()["request"] | {"kind": "Pod"}},
        "request.kind: expected `object`, got `str`",
    ),
    "a subresource": (review(subResource="status"), "request.subResource: this path answers for Pod itself"),
    "no uid": (without(review(), "request", "uid"), "request.uid: must have 1 to 253 characters, got 0"),
    "empty uid": (review(uid=""), "request.uid: must have 1 to 253 characters, got 0"),
    "uid without end": (review(uid="x" * 254), "request.uid: must have 1 to 253 characters, got 254"),
    "uid is a number": (review(uid=1), "request.uid: expected `str`, got `int`"),
    "a deletion": (review(operation="DELETE"), "request.operation: must be one of CREATE, UPDATE, got 'DELETE'"),
    "no operation": (
        without(review(), "request", "operation"),
        "request.operation: must be one of CREATE, UPDATE, got ''",
    ),
    "no object": (review() | {"request": review()["request"] | {"object": None}}, "request.object: must be the object"),
    "object is text": (
        review() | {"request": review()["request"] | {"object": "pod"}},
        "request.object: expected `object | null`, got `str`",
    ),
    "old object is a list": (review(oldObject=[]), "request.oldObject: expected `object | null`, got `array`"),
    "namespace is a number": (review(namespace=7), "request.namespace: expected `str | null`, got `int`"),
    "name is a mapping": (review(name={}), "request.name: expected `str | null`, got `object`"),
    "user is text": (review(userInfo="admin"), "request.userInfo: expected `object`, got `str`"),
    "user name is a list": (
        review(userInfo={"username": []}),
        "request.userInfo.username: expected `str | null`, got `array`",
    ),
}


@pytest.mark.parametrize(("value", "message"), REFUSED.values(), ids=REFUSED)
def test_what_the_api_server_never_sends_is_refused_with_its_place(value, message):
    with pytest.raises(Refused) as refused:
        read_pod(value)

    assert str(refused.value).startswith(message)
    assert refused.value.reason is Reason.INVALID_REVIEW


NOT_JSON = {
    "text": b"review",
    "cut": json.dumps(review()).encode()[:-1],
    "two values": b"{}{}",
    "NaN": b'{"kind": NaN}',
    "infinite": b'{"kind": -Infinity}',
    "not UTF-8": b'{"kind": "\xff"}',
    "half a character": b'{"kind": "\\ud800"}',
    "lists without end": b'{"kind":' + b"[" * 1_000_000,
    "mappings without end": b'{"a":' * 1_000_000,
    "compressed": b"\x1f\x8b\x08\x00",
}


@pytest.mark.parametrize("body", NOT_JSON.values(), ids=NOT_JSON)
def test_what_is_not_json_is_refused(body):
    with pytest.raises(Refused, match="not JSON") as refused:
        read_review(body, group="", kind="Pod")

    assert len(str(refused.value)) < 300


def test_an_error_deep_in_an_object_is_short():
    nested = b'{"request": {"object": {"spec": ' + b"[" * 900 + b"1e999" + b"]" * 900 + b"}}}"

    with pytest.raises(Refused, match=r"^request\.object\.spec\[") as refused:
        read_review(nested, group="kubevirt.io", kind="VirtualMachine")

    assert len(str(refused.value)) < 700


def answer(decision):
    return json.loads(write_review(UID, decision))


def test_wh13_the_answer_is_an_admission_review_that_echoes_the_uid():
    value = answer(Decision(Reason.NOT_OPTED_IN))

    assert value == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": UID, "allowed": True, "auditAnnotations": {"reason": "not_opted_in"}},
    }


def test_a_patch_comes_with_its_type():
    operations = (add({"a/b": "ä"}, "metadata", "annotations"), add("x", "metadata", "annotations", "c/d~e"))

    response = answer(Decision(Reason.INJECTED, patch=Patch.of(operations)))["response"]

    assert response["allowed"] is True
    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"], validate=True)) == [
        {"op": "add", "path": "/metadata/annotations", "value": {"a/b": "ä"}},
        {"op": "add", "path": "/metadata/annotations/c~1d~0e", "value": "x"},
    ]


def test_no_patch_comes_without_a_type():
    response = answer(Decision(Reason.ALREADY_INJECTED))["response"]

    assert not {"patch", "patchType"} & response.keys()


def test_wh08_a_denial_stands_in_the_review_with_its_code():
    response = answer(Decision.deny(Reason.NO_COMPUTE, "spec.containers: has no container named compute"))["response"]

    assert response["allowed"] is False
    assert response["status"] == {
        "code": 403,
        "reason": "no_compute",
        "message": "spec.containers: has no container named compute (reason: no_compute)",
    }
    assert not {"patch", "patchType"} & response.keys()


def test_warnings_fit_into_headers():
    """A control character makes the API server drop a warning. Source: k8s.io/apimachinery/pkg/util/net, http.go."""
    response = answer(Decision(Reason.ACCEPTED, warnings=("one\nline", "\x1b[31mred", "schön")))["response"]

    assert response["warnings"] == ["one line", " [31mred", "schön"]


def test_warnings_are_bounded_in_length_and_in_all():
    """Beyond 4096 in all the API server cuts each at 256. Source: k8s.io/apiserver, endpoints/filters/warning.go."""
    response = answer(Decision(Reason.ACCEPTED, warnings=("ä" * 10_000,) * 32))["response"]

    assert {len(warning) for warning in response["warnings"]} == {512}
    assert sum(map(len, response["warnings"])) == 4096
