"""The overlays whose certificates others keep, installed for real: what their operators write is written here."""

import base64

import pytest
from cluster import machines, manifests, watching
from cluster.api import ApiError
from cluster.controlplane import KUBEVIRT_CONTROLLER
from cluster.dravirt import refusal
from cluster.kubevirt import with_ca
from cluster.process import until

from install.conftest import IMAGES
from install.installation import KINDS, REGISTRATION, WEBHOOKS, Installation

pytestmark = pytest.mark.install
HOST = "dravirt-webhook.dravirt-system.svc"


@pytest.fixture
def installed(request, cluster, kubectl, api, tmp_path):
    """An overlay with the allocation service, and what its operator would have written."""
    manifests.stand_in_for_operators(api)
    found = Installation(
        api, kubectl, tmp_path / "mine", overlay=request.param, images=IMAGES, components=["allocation-service"]
    )
    found.apply()
    write_certificate(api, cluster.control_plane.authority)
    yield found
    found.delete()


def write_certificate(api, authority):
    """Write what cert-manager and its cainjector, or OpenShift's service CA operator, make of the manifests."""
    pair = authority.issue("serving", HOST)
    files = {"tls.crt": pair.certificate.read_text(), "tls.key": pair.key.read_text(), "ca.crt": authority.pem}
    data = {name: base64.b64encode(text.encode()).decode() for name, text in files.items()}
    metadata = {"name": "dravirt-webhook-serving", "namespace": "dravirt-system"}
    api.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls", "data": data})
    if bundle := api.get("v1", "ConfigMap", "dravirt-service-ca", "dravirt-system"):
        api.merge({"apiVersion": "v1", "kind": "ConfigMap", **bundle}, {"data": {"service-ca.crt": authority.pem}})
    for kind in KINDS:
        item = {"apiVersion": REGISTRATION, "kind": kind, **api.get(REGISTRATION, kind, WEBHOOKS)}
        api.merge(item, {"webhooks": with_ca(item, authority.pem)["webhooks"]})


def in_force(api):
    until(lambda: "denied the request" in refusal(api), seconds=60, what="the API server asking the webhook")


@pytest.mark.parametrize("installed", ["cert-manager"], indirect=True)
def test_cert_manager_keeps_the_certificate(api, installed, namespace, cluster):
    pods = installed.wait_until_ready()
    in_force(api)
    api.apply(machines.template(namespace, "vgpu", machines.request("time-sliced")))
    api.apply(machines.vm(namespace, asks="vgpu"))

    launcher = watching.launcher(api, namespace)
    (sidecar,) = (each for each in launcher["spec"]["initContainers"] if each["name"] == "dravirt-hook")
    intent = next(each["value"] for each in sidecar["env"] if each["name"] == "DRAVIRT_INTENT")
    assert cluster.control_plane.authority.pem.splitlines()[1] in intent
    assert HOST in intent
    assert sidecar["image"] == IMAGES["dravirt-hooksidecar"]
    # (a token, for the allocation service alone)
    assert [each["name"] for each in pods[0]["spec"]["volumes"] if "projected" in each]


@pytest.mark.parametrize("installed", ["openshift"], indirect=True)
def test_openshifts_service_ca_keeps_the_certificate_and_its_kubevirt_is_the_one_trusted(
    api, installed, namespace, cluster
):
    installed.wait_until_ready()
    in_force(api)
    other = cluster.control_plane.api(KUBEVIRT_CONTROLLER)

    assert "only system:serviceaccount:openshift-cnv:kubevirt-controller may create" in refusal(other)
    metadata = {"name": "forged", "namespace": namespace, "labels": {"dravirt.io/injected": "true"}}
    spec = {"containers": [{"name": "c", "image": "registry.example/c"}]}
    with pytest.raises(
        ApiError, match="only pods that system:serviceaccount:openshift-cnv:kubevirt-controller creates"
    ):
        other.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, dryRun="All")
