"""Who is answered: the pod of a token that the real API server takes, and nobody else."""

import http.client
import json
import ssl
from urllib.parse import urlsplit

import pytest
from cluster import machines, watching
from cluster.process import until
from integration.allocations.site import found, now

from dra.errors import Failed, Refused
from dra.reasons import Reason

DRIVER = "vgpu.callers.example"
UUIDS = [f"4f0e2a54-6c1d-4b7a-9f33-{number:012x}" for number in range(8)]
GPU0 = {"resourceClaimTemplateName": "t"}


@pytest.fixture
def pod(site):
    devices = [{"name": f"v{n}", "attributes": {"mdevUUID": {"string": uuid}}} for n, uuid in enumerate(UUIDS)]
    site.publish(DRIVER, *devices)
    site.template("t", machines.request(DRIVER))
    return site.pod("vm1", gpu0=GPU0)


def refused(site, token):
    with pytest.raises(Refused) as error:
        site.ask(token)
    return error.value.reason


def test_the_pod_of_the_token_is_answered_with_its_own_device(site, pod):
    other = site.pod("vm2", gpu0=GPU0)
    answers = [found(site.ask(site.token(each))) for each in (pod, other)]
    assert answers[0] != answers[1]
    for each, answer in zip((pod, other), answers, strict=True):
        (claim,) = site.claims_of(each)
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        assert answer == {"dravirt-gpu0": [("gpu", result["device"], UUIDS[int(result["device"][1:])])]}


def test_another_audience(site, pod):
    assert refused(site, site.token(pod, audience="vault")) is Reason.INVALID_TOKEN


def test_a_token_for_the_api_server_itself(site, pod):
    assert refused(site, site.token(pod, audience="https://kubernetes.default.svc")) is Reason.INVALID_TOKEN


def test_an_expired_token(site, pod):
    token = site.token(pod)
    assert site.ask(site.forged(token))  # (what is signed anew is as good as what was issued)
    assert refused(site, site.forged(token, exp=now() - 60)) is Reason.INVALID_TOKEN


def test_a_token_that_somebody_else_signed(site, pod):
    token = site.token(pod)
    assert refused(site, token[:-8] + "AAAAAAAA") is Reason.INVALID_TOKEN


def test_a_token_of_no_pod(site, pod):
    path = f"/api/v1/namespaces/{site.namespace}/serviceaccounts/default/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["dravirt.io"]}}
    token = site.api.request("POST", path, body)["status"]["token"]
    assert pod
    assert refused(site, token) is Reason.INVALID_TOKEN


def test_a_token_from_another_node(site, pod):
    token = site.token(pod)
    node = site.api.get("v1", "Node", "paper-2")
    claims = {
        "namespace": site.namespace,
        "serviceaccount": _account(site),
        "pod": {"name": "vm1", "uid": pod["metadata"]["uid"]},
        "node": {"name": "paper-2", "uid": node["metadata"]["uid"]},
    }
    assert refused(site, site.forged(token, **{"kubernetes.io": claims})) in (
        Reason.POD_MISMATCH,
        Reason.INVALID_TOKEN,
    )


def _account(site):
    account = site.api.get("v1", "ServiceAccount", "default", site.namespace)
    return {"name": "default", "uid": account["metadata"]["uid"]}


def test_a_pod_that_was_deleted_and_one_made_again_under_its_name(site, pod):
    token = site.token(pod)
    assert site.ask(token)
    site.api.delete(pod, now=True)
    # The API server may take the token of a deleted pod for some seconds more; the pod itself is gone at once.
    assert refused(site, token) in (Reason.POD_MISMATCH, Reason.INVALID_TOKEN)
    again = site.pod("vm1", gpu0=GPU0)
    assert refused(site, token) in (Reason.POD_MISMATCH, Reason.INVALID_TOKEN)
    assert site.ask(site.token(again))


@pytest.mark.parametrize("body", ['{"version": 1, "pod": "vm2"}', '{"version": 2}', "[]"])
def test_a_forged_body(site, pod, body):
    url = urlsplit(site.service["url"])
    context = ssl.create_default_context(cadata=site.service["ca"])
    context.check_hostname = False
    connection = http.client.HTTPSConnection(url.hostname, url.port, context=context)
    connection.request("POST", "/v1/allocations", body, {"Authorization": f"Bearer {site.token(pod)}"})
    response = connection.getresponse()
    assert (response.status, json.load(response)["reason"]) == (400, "invalid_request")
    connection.close()


def test_a_pod_that_is_no_launcher(site, pod):
    assert pod
    site.claim("mine", machines.request(DRIVER))
    other = site.pod("plain", gpu0={"resourceClaimName": "mine"})
    site.api.merge(other, {"metadata": {"labels": {"kubevirt.io": None}}})
    assert refused(site, site.token(other)) is Reason.NOT_A_LAUNCHER


# One device, one VM.


def test_of_two_vms_at_once_one_gets_the_device_and_the_other_its_turn(site, pod):
    assert pod
    site.claim("shared", machines.request(DRIVER))
    source = {"resourceClaimName": "shared"}
    unbound = [site.pod(name, bound=False, gpu0=source) for name in ("one", "two")]
    (claim,) = until(
        lambda: [each for each in _claims(site) if len(each.get("status", {}).get("reservedFor", [])) == 2],
        seconds=30,
        what="both pods have reserved the claim",
    )
    names = [each["name"] for each in claim["status"]["reservedFor"]]
    pods = {each["metadata"]["name"]: each for each in unbound}
    # (a claim is reserved before its pod is bound, and only then does a token name the node)
    first, second = (watching.bound(site.api, pods[name]) | {"apiVersion": "v1", "kind": "Pod"} for name in names)
    assert site.ask(site.token(first))
    with pytest.raises(Refused, match=f"held by pod '{names[0]}'") as held:
        site.ask(site.token(second))
    assert held.value.reason is Reason.CLAIM_HELD
    # A restart of the first: it comes last.
    site.api.delete(first, now=True)
    again = site.pod(names[0], gpu0=source)
    until(lambda: _outcome(site, second) == "devices", seconds=30, what="the second gets its turn")
    assert _outcome(site, again) is Reason.CLAIM_HELD
    # The second ends by itself.
    site.api.merge(second, {"status": {"phase": "Succeeded"}}, subresource="status")
    until(lambda: _outcome(site, again) == "devices", seconds=30, what="the first gets its turn again")


def _claims(site):
    return site.api.list(machines.CLAIMS, "ResourceClaim", site.namespace)


def _outcome(site, pod):
    try:
        site.ask(site.token(pod))
    except (Refused, Failed) as error:
        return error.reason
    return "devices"


def test_the_rights_of_the_role_are_enough_and_no_more(site, pod, stack):
    from cluster.api import ApiError
    from cluster.controlplane import WEBHOOK

    assert site.ask(site.token(pod))
    api = stack.control_plane.api(WEBHOOK)
    for path in (
        "/api/v1/pods",
        f"/api/v1/namespaces/{site.namespace}/secrets",
        f"/apis/resource.k8s.io/v1/namespaces/{site.namespace}/resourceclaims",
        "/apis/resource.k8s.io/v1/deviceclasses",
    ):
        with pytest.raises(ApiError) as error:
            api.request("GET", path)
        assert error.value.code == 403
