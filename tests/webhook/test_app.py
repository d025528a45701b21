"""The HTTP side of admission: what is answered, with which status, and what the log says about it."""

import base64
import json
import logging

import httpx
import pytest
from support.asgi import Client
from support.reviews import UID, VM, mutated, review

from dra.reasons import Reason
from webhook.admission import HANDLERS, Handler
from webhook.app import create_app
from webhook.config import Config
from webhook.decision import Decision
from webhook.intake import MAX_BODY
from webhook.patch import Patch, add
from webhook.readiness import Condition, Readiness


def label_pods(request, config):
    """A small webhook: labels pods, denies those called `evil`, and has a defect."""
    if request.name == "evil":
        return Decision.deny(Reason.NO_COMPUTE, f"spec.containers: wrong in {request.namespace}")
    if request.name == "defect":
        raise ZeroDivisionError
    if "labels" in request.object["metadata"]:
        return Decision(Reason.ALREADY_INJECTED)
    return Decision(Reason.INJECTED, patch=Patch.of([add({"mode": config.mode}, "metadata", "labels")]))


def accept(_request, _config):
    return Decision(Reason.ACCEPTED)


SMALL = {"/mutate/pod": Handler("", "Pod", label_pods), "/mutate/vm": Handler("kubevirt.io", "VirtualMachine", accept)}


@pytest.fixture
def readiness():
    return Readiness({"configuration": lambda: Condition(ready=True, detail="as it should be")})


@pytest.fixture
def events():
    """What was recorded of each admission."""
    return []


@pytest.fixture
def client(readiness, events):
    return Client(create_app(Config, readiness, events.append, SMALL))


def post(client, value, path="/mutate/pod"):
    response = client.post(f"{path}?timeout=5s", json=value)
    assert response.status_code == httpx.codes.OK
    assert response.headers["content-type"] == "application/json"
    return response.json()["response"]


def test_a_review_is_answered_with_a_patch(client):
    response = post(client, review({"metadata": {}}))

    assert response["uid"] == UID
    assert response["allowed"] is True
    assert json.loads(base64.b64decode(response["patch"])) == [
        {"op": "add", "path": "/metadata/labels", "value": {"mode": "placeholder"}}
    ]


def test_wh08_a_denial_is_http_200(client):
    response = post(client, review(name="evil"))

    assert response["allowed"] is False
    assert response["status"]["code"] == httpx.codes.FORBIDDEN
    assert response["status"]["message"] == "spec.containers: wrong in team-a (reason: no_compute)"


def test_each_path_answers_for_its_kind(client):
    assert post(client, review(kind=VM), "/mutate/vm")["allowed"] is True
    assert client.post("/mutate/vm", json=review()).status_code == httpx.codes.BAD_REQUEST
    assert client.post("/mutate/pod", json=review(kind=VM)).status_code == httpx.codes.BAD_REQUEST


def test_the_configuration_of_the_moment_counts(readiness):
    configs = iter([Config(), Config(mode="append")])
    client = Client(create_app(lambda: next(configs), readiness, print, SMALL))

    patches = [base64.b64decode(post(client, review({"metadata": {}}))["patch"]) for _ in range(2)]

    assert [json.loads(patch)[0]["value"] for patch in patches] == [{"mode": "placeholder"}, {"mode": "append"}]


POST = "POST", {"content-type": "application/json"}
REFUSED = {
    "GET": ("GET", {}, b"", 405, "only POST"),
    "PUT": ("PUT", {"content-type": "application/json"}, b"{}", 405, "only POST"),
    "no content type": ("POST", {}, b"{}", 415, "the content type must be application/json"),
    "YAML": ("POST", {"content-type": "application/yaml"}, b"{}", 415, "the content type must be application/json"),
    "form": ("POST", {"content-type": "text/plain; application/json"}, b"{}", 415, "the content type must be"),
    "JSON of another kind": ("POST", {"content-type": "application/json-patch+json"}, b"[]", 415, "the content type"),
    "WH-24 empty": (*POST, b"", 400, "the body is empty"),
    "not JSON": (*POST, b"{", 400, "the body is not JSON"),
    "not UTF-8": (*POST, b'{"kind": "\xff"}', 400, "the body is not JSON"),
    "NaN": (*POST, b'{"kind": NaN}', 400, "the body is not JSON"),
    "nested without end": (*POST, b'{"kind": ' + b"[" * 100_000, 400, "the body is not JSON"),
    "a list": (*POST, b"[]", 400, "the body: expected `object`, got `array`"),
    "no review": (*POST, b"{}", 400, "kind: must be AdmissionReview"),
    "v1beta1": (
        *POST,
        json.dumps(review() | {"apiVersion": "admission.k8s.io/v1beta1"}).encode(),
        400,
        "apiVersion: must be admission.k8s.io/v1, got text: 'admission.k8s.io/v1beta1'",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_a_request_that_is_no_review_is_an_http_error(client, caplog, case):
    method, headers, body, status, message = case

    response = client.request(method, "/mutate/pod", headers=headers, content=body)

    assert response.status_code == status
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert response.text.startswith(message)
    assert [record.levelname for record in caplog.records if record.name.startswith("webhook")] == ["WARNING"]


def test_the_methods_that_are_answered_are_named(client):
    assert client.get("/mutate/pod").headers["allow"] == "POST"


@pytest.mark.parametrize("media_type", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_json_by_any_spelling_is_read(client, media_type):
    response = client.post("/mutate/pod", content=json.dumps(review()), headers={"content-type": media_type})

    assert response.status_code == httpx.codes.OK


def test_wh24_a_body_of_the_largest_size_is_read(client):
    body = json.dumps(review()).encode().ljust(MAX_BODY)

    assert client.post("/mutate/pod", content=body, headers=POST[1]).status_code == httpx.codes.OK


def test_wh24_a_larger_body_is_refused(client):
    response = client.post("/mutate/pod", content=b" " * (MAX_BODY + 1), headers=POST[1])

    assert response.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE
    assert response.headers["connection"] == "close"
    assert post(client, review())["allowed"] is True, "the server answers the next"


def test_a_defect_fails_one_review_and_is_logged(client, caplog):
    response = client.post("/mutate/pod", json=review(name="defect"))

    assert response.status_code == httpx.codes.INTERNAL_SERVER_ERROR
    assert "ZeroDivision" not in response.text
    record = next(record for record in caplog.records if record.levelno == logging.ERROR)
    assert record.fields["reason"] == "internal_error"
    assert record.exc_info[0] is ZeroDivisionError
    assert post(client, review())["allowed"] is True, "the server answers the next"


LOGGED = {
    "WH-04 patched": (review({"metadata": {"generateName": "virt-launcher-vm-"}}), "virt-launcher-vm-", "injected"),
    "allowed": (review({"metadata": {"labels": {}, "name": "p"}}, name="p"), "p", "already_injected"),
    "denied": (review(name="evil"), "evil", "no_compute"),
}


@pytest.mark.parametrize("case", LOGGED)
def test_each_admission_is_one_event_without_the_object(client, events, case):
    value, name, reason = LOGGED[case]
    value["request"]["object"]["spec"] = {"secret": "hunter2"}

    post(client, value)

    assert len(events) == 1
    assert events[0].pop("ms") < 1000
    assert events[0] == {
        "message": "admission",
        "path": "/mutate/pod",
        "uid": UID,
        "kind": "Pod",
        "namespace": "team-a",
        "name": name,
        "operation": "CREATE",
        "decision": case.split()[-1],
        "reason": reason,
    }


def test_health_does_not_depend_on_readiness(client, readiness):
    readiness.draining = True

    assert client.get("/healthz").status_code == httpx.codes.OK


def test_ready_says_what_is_in_place(client):
    response = client.get("/readyz")

    assert response.status_code == httpx.codes.OK
    assert response.json() == {
        "ready": True,
        "conditions": {
            "serving": {"ready": True, "detail": ""},
            "configuration": {"ready": True, "detail": "as it should be"},
        },
    }


def test_not_ready_says_what_is_missing():
    readiness = Readiness({"certificate": lambda: Condition(ready=False, detail="no certificate yet")})

    response = Client(create_app(Config, readiness, print, SMALL)).get("/readyz")

    assert response.status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert response.json()["ready"] is False
    assert response.json()["conditions"]["certificate"] == {"ready": False, "detail": "no certificate yet"}


def test_a_draining_server_is_not_ready_answers_and_asks_its_clients_to_leave(client, readiness):
    readiness.draining = True

    response = client.post("/mutate/pod", json=review())

    assert client.get("/readyz").status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert response.status_code == httpx.codes.OK
    assert response.headers["connection"] == "close"


@pytest.mark.parametrize("path", ["/", "/docs", "/redoc", "/openapi.json", "/mutate", "/mutate/pod/", "/mutate/x"])
def test_nothing_else_is_served(client, path):
    assert client.get(path).status_code == httpx.codes.NOT_FOUND


@pytest.fixture
def real_client(readiness):
    return Client(create_app(Config, readiness, print))


def test_the_real_webhooks_are_served(real_client):
    for path, handler in HANDLERS.items():
        kind = {"group": handler.group, "version": "v1", "kind": handler.kind}
        response = post(real_client, review({"metadata": {"name": "x"}}, kind), path)
        assert response["allowed"] is True
        assert "patch" not in response


@pytest.mark.corpus
def test_the_live_pod_is_injected_over_http(real_client, corpus):
    body = (corpus / "live" / "pod-create-review.json").read_bytes()
    pod = json.loads(body)["request"]["object"]

    response = post(real_client, json.loads(body))
    once = mutated(pod, response)

    assert once["spec"]["initContainers"][0]["name"] == "dravirt-hook"
    assert "patch" not in post(
        real_client, json.loads(body) | {"request": json.loads(body)["request"] | {"object": once}}
    )


@pytest.mark.corpus
def test_wh16_a_dry_run_gets_the_same_answer(real_client, corpus):
    value = json.loads((corpus / "live" / "pod-create-review.json").read_bytes())

    answers = [post(real_client, value | {"request": value["request"] | {"dryRun": dry}}) for dry in (True, False)]

    assert answers[0] == answers[1]
    assert answers[0]["patchType"] == "JSONPatch"


@pytest.mark.corpus
def test_wh08_the_live_pod_that_was_not_injected_is_denied_in_http_200(real_client, corpus):
    value = json.loads((corpus / "live" / "pod-create-review.json").read_bytes())

    response = post(real_client, value, "/validate/pod")

    assert (response["allowed"], response["status"]["code"]) == (False, httpx.codes.FORBIDDEN)
    assert response["status"]["reason"] == "not_injected"
    assert "patch" not in response
