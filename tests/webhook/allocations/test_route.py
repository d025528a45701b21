"""The service over HTTP: what is asked, what is answered, and what is never said."""

import asyncio
import json

import httpx
import pytest
from support.allocations import UUIDS, claim, pod, result

from dra.errors import Failed
from dra.intent import ServiceAddress
from dra.reasons import Reason
from webhook.allocations import route
from webhook.allocations.parts import allocation_parts
from webhook.allocations.route import MAX_BODY
from webhook.app import create_app
from webhook.config import Config
from webhook.log import EventLog
from webhook.readiness import Readiness

PATH = "/v1/allocations"
ON = Config(allocation_service=ServiceAddress("https://d.svc:443", "PEM", "d.svc", "/token"))


class Client:
    """Calls the whole application, in one event loop as a server has it."""

    def __init__(self, config, kubeconfig):
        self.parts = allocation_parts(lambda: config, kubeconfig, EventLog("webhook.allocations"))
        app = create_app(lambda: config, Readiness({}), print, routes=[self.parts.router])
        self._runner = asyncio.Runner()
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://webhook")

    def request(self, method, **options):
        return self._runner.run(self._client.request(method, PATH, **options))

    def ask(self, token="t1", body=b'{"version": 1}'):
        return self.request("POST", content=body, headers={"authorization": f"Bearer {token}"})

    def close(self, *, was_used=True):
        self._runner.run(self._client.aclose())
        if was_used:
            self._runner.run(self.parts.cluster()._client.close())
        self._runner.close()


@pytest.fixture
def client(api):
    client = Client(ON, api.kubeconfig)
    yield client
    client.close()


def test_a_pod_is_answered_with_its_devices(client):
    response = client.ask()
    assert response.status_code == httpx.codes.OK
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {
        "version": 1,
        "podClaims": {
            "dravirt-gpu0": [
                {
                    "request": "vgpu",
                    "driver": "vgpu.example.com",
                    "pool": "node-7",
                    "device": "v0",
                    "shareID": None,
                    "attributes": {"mdevUUID": {"string": UUIDS[0]}},
                    "data": {},
                }
            ]
        },
    }


UNAUTHORIZED = {
    "no header": {},
    "no token": {"authorization": "Bearer "},
    "another scheme": {"authorization": "Basic dDE="},
    "two tokens": {"authorization": "Bearer t1 t2"},
    "a token with a line": {"authorization": "Bearer t1\tx"},
    "an endless token": {"authorization": "Bearer " + "a" * 20_000},
}


@pytest.mark.parametrize("headers", UNAUTHORIZED.values(), ids=UNAUTHORIZED)
def test_without_a_token_nothing_is_asked(api, client, headers):
    response = client.request("POST", content=b'{"version": 1}', headers=headers)
    assert response.status_code == httpx.codes.UNAUTHORIZED
    assert response.json()["reason"] == "invalid_token"
    assert api.asked == []


FORGED = {
    "another pod": b'{"version": 1, "pod": "vm2"}',
    "another namespace": b'{"version": 1, "namespace": "team-b"}',
    "another version": b'{"version": 2}',
    "no version": b"{}",
    "version as text": b'{"version": "1"}',
    "a truth value": b'{"version": true}',
    "a list": b"[1]",
    "no JSON": b"version=1",
    "nothing": b"",
    "deep": b"[" * 500,
    "not UTF-8": b'{"version": 1, "\xff": 1}',
    "large": b'{"version": 1}' + b" " * MAX_BODY,
}


@pytest.mark.parametrize("body", FORGED.values(), ids=FORGED)
def test_a_body_that_says_more_or_less_is_refused(api, client, body):
    response = client.ask(body=body)
    assert response.status_code == httpx.codes.BAD_REQUEST
    assert response.json()["reason"] == "invalid_request"
    assert "retry-after" not in response.headers
    assert api.asked == []


def test_only_post_is_answered(client):
    assert client.request("GET").status_code == httpx.codes.METHOD_NOT_ALLOWED


def test_a_retry_is_told_only_where_it_may_help(api, client):
    api.put(claim("vm1-gpu0", owner=pod("vm1"), reserved=[pod("other"), pod("vm1")]), pod("other"))
    held = client.ask()
    assert (held.status_code, held.json()["reason"]) == (409, Reason.CLAIM_HELD)
    assert "retry-after" not in held.headers
    api.put(pod("other", terminating=True))
    leaving = client.ask()
    assert (leaving.status_code, leaving.json()["reason"]) == (409, Reason.CLAIM_HELD)
    assert leaving.headers["retry-after"] == "1"


STATUS = {
    "not authenticated": (lambda api: api.clear("tokens"), 401, "invalid_token", False),
    "deleted": (lambda api: api.remove(pod("vm1")), 403, "pod_mismatch", False),
    "not opted in": (lambda api: api.put(without_annotation()), 403, "not_opted_in", False),
    "claim is gone": (lambda api: api.clear("resourceclaims"), 409, "claim_missing", False),
    "not allocated": (
        lambda api: api.put(claim("vm1-gpu0", owner=pod("vm1"), allocated=False)),
        409,
        "not_allocated",
        True,
    ),
    "admin access": (
        lambda api: api.put(claim("vm1-gpu0", result(adminAccess=True), owner=pod("vm1"))),
        409,
        "admin_access",
        False,
    ),
    "no slices": (lambda api: api.clear("resourceslices"), 503, "incomplete_pool", True),
    "API server is down": (lambda api: api.fail({"path": "", "status": 500}), 503, "api_unavailable", True),
}


def without_annotation():
    item = pod("vm1")
    item["metadata"]["annotations"] = {}
    return item


@pytest.mark.parametrize("case", STATUS.values(), ids=STATUS)
def test_each_reason_has_its_status(api, client, case):
    change, status, reason, retry = case
    change(api)
    response = client.ask()
    assert (response.status_code, response.json()["reason"]) == (status, reason)
    assert ("retry-after" in response.headers) is retry
    assert set(response.json()) == {"reason", "message"}


def test_switched_off_it_says_so_and_asks_nobody(api):
    client = Client(Config(), api.kubeconfig)
    response = client.ask()
    client.close(was_used=False)
    assert (response.status_code, response.json()["reason"]) == (503, "not_serving")
    assert api.asked == []


def test_outside_a_cluster_it_says_so_at_the_start_and_to_who_asks(caplog):
    client = Client(ON, None)
    assert "KUBERNETES_SERVICE_HOST is not set, and no --kubeconfig is given" in caplog.text
    response = client.ask()
    client.close(was_used=False)
    assert (response.status_code, response.json()["reason"]) == (503, "api_unavailable")
    assert "retry-after" in response.headers


@pytest.mark.parametrize("config", [ON, Config()], ids=["on", "off"])
def test_a_kubeconfig_that_is_not_there_stops_the_start(tmp_path, config):
    with pytest.raises(Failed, match="absent: No such file or directory") as failed:
        Client(config, tmp_path / "absent")
    assert failed.value.reason == "unreadable"


def test_the_token_is_in_no_answer_and_no_log(api, client, capfd, caplog):
    secret = "eyJhbGciOi.secret-token.c2ln"
    api.write(f"tokens/{secret}", api.read("tokens/t1"))
    caplog.set_level("DEBUG")
    texts = [client.ask(secret).text]
    for fault in ({"path": "", "status": 500}, {"path": "/pods/", "close": True}, {"path": "", "status": 403}):
        api.fail(fault)
        texts.append(client.ask(secret).text)
    out, err = capfd.readouterr()
    assert secret not in " ".join([*texts, out, err, caplog.text])
    assert "secret-token" not in json.dumps(texts)


def test_each_answer_is_logged_with_the_pod_or_the_reason(api, client, capfd, caplog):
    caplog.set_level("INFO")
    client.ask()
    api.clear("pods")
    client.ask()
    events = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    answered, refused = [each for each in events if each["message"] == "allocations"]
    assert (answered["status"], answered["namespace"], answered["pod"]) == (200, "team-a", "vm1")
    assert answered["devices"] == ["vgpu.example.com/node-7/v0"]
    assert (refused["status"], refused["reason"]) == (403, "pod_mismatch")
    assert "'vm1'" in refused["detail"]


def test_a_body_that_never_ends_is_given_up(client, monkeypatch):
    monkeypatch.setattr(route, "BODY_SECONDS", 0.05)

    async def slow():
        yield b'{"version"'
        await asyncio.sleep(5)

    response = client.request("POST", content=slow(), headers={"authorization": "Bearer t1"})
    assert (response.status_code, response.json()["reason"]) == (400, "invalid_request")


def test_a_defect_is_told_without_what_it_was(client, monkeypatch, caplog):
    monkeypatch.setattr(route, "answer_to_json", lambda _: 1 / 0)
    response = client.ask()
    assert response.status_code == httpx.codes.INTERNAL_SERVER_ERROR
    assert response.json()["reason"] == "internal_error"
    assert "ZeroDivisionError" not in response.text
    assert "ZeroDivisionError" in caplog.text
