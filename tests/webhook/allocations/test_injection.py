"""What switching the service on changes in a launcher pod, and what reaches a VM's owner."""

import asyncio
import base64
import json

import httpx
import pytest
from support.admission import create, intent_of, launcher_pod, patched, sidecar_of, vmi
from support.reviews import review

from dra.intent import ServiceAddress
from webhook import pod as pods
from webhook.app import create_app
from webhook.config import Config
from webhook.decision import Decision
from webhook.readiness import Readiness

SERVICE = ServiceAddress(
    "https://dravirt-webhook.dravirt-system.svc:443",
    "PEM",
    "dravirt-webhook.dravirt-system.svc",
    "/var/run/secrets/dravirt.io/token",
)
ON, OFF = Config(allocation_service=SERVICE), Config()
TOKEN = {
    "name": "dravirt-token",
    "projected": {
        "sources": [{"serviceAccountToken": {"audience": "dravirt.io", "expirationSeconds": 3600, "path": "token"}}]
    },
}


def injected(config):
    item = launcher_pod()
    return patched(item, pods.decide(create(item), config))


def test_the_sidecar_gets_a_token_for_our_audience_and_the_way_to_the_service():
    pod = injected(ON)
    assert [each for each in pod["spec"]["volumes"] if each["name"] == "dravirt-token"] == [TOKEN]
    assert {"name": "dravirt-token", "mountPath": "/var/run/secrets/dravirt.io", "readOnly": True} in sidecar_of(pod)[
        "volumeMounts"
    ]
    assert intent_of(pod)["service"] == {
        "url": "https://dravirt-webhook.dravirt-system.svc:443",
        "ca": "PEM",
        "serverName": "dravirt-webhook.dravirt-system.svc",
        "tokenPath": "/var/run/secrets/dravirt.io/token",
    }


def test_no_other_container_gets_the_token():
    pod = injected(ON)
    holders = [
        each["name"]
        for each in pod["spec"]["containers"] + pod["spec"]["initContainers"]
        if "dravirt-token" in json.dumps(each)
    ]
    assert holders == ["dravirt-hook"]


def test_switched_off_nothing_of_it_is_there():
    pod = injected(OFF)
    assert "dravirt-token" not in json.dumps(pod)
    assert intent_of(pod)["service"] is None


@pytest.mark.parametrize(("first", "second"), [(ON, ON), (ON, OFF), (OFF, ON)], ids=["on", "on, off", "off, on"])
def test_a_second_pass_changes_nothing(first, second):
    pod = injected(first)
    assert not pods.decide(create(pod), second).patch


def warnings(path, item, kind, *, look_up):
    app = create_app(Config, Readiness({}), print, look_up=look_up)

    async def run():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://webhook") as client:
            body = review(item, kind=kind)
            body["request"]["userInfo"] = {"username": "system:serviceaccount:kubevirt:kubevirt-controller"}
            return (await client.post(path, json=body)).json()["response"]

    return asyncio.run(run())


async def typo(_request, _decision):
    return ("there is no ResourceClaimTemplate 'vgpu' here",)


async def never(_request, _decision: Decision):
    raise AssertionError


VMI = {"group": "kubevirt.io", "version": "v1", "kind": "VirtualMachineInstance"}


def test_what_was_looked_up_is_told_beside_the_rest():
    response = warnings("/mutate/vmi", vmi("[{name: gpu0, resourceClaimName: mine}]"), VMI, look_up=typo)
    assert response["allowed"] is True
    assert len(response["warnings"]) == 2
    assert response["warnings"][1] == "there is no ResourceClaimTemplate 'vgpu' here"
    assert json.loads(base64.b64decode(response["patch"]))


def test_what_is_denied_is_not_looked_up():
    assert warnings("/mutate/vmi", vmi("[]"), VMI, look_up=never)["allowed"] is False


@pytest.mark.parametrize("path", ["/mutate/pod", "/validate/pod"])
def test_pods_are_never_looked_up(path):
    pod = {"group": "", "version": "v1", "kind": "Pod"}
    response = warnings(path, launcher_pod(), pod, look_up=never)
    assert "allowed" in response
