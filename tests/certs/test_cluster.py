"""The client of the API server over real sockets: what it sends, and what it makes of refusals."""

import datetime as dt

import pytest
from support.authorities import NAMES, QUICK
from support.certserver import CertServer
from support.simulatedcluster import PLACE

from certs.cabundle import bundles
from certs.cluster import Cluster, connect
from certs.selfmanaged import SelfManaged
from certs.store import Conflict, Reading
from dra.errors import Failed, Refused


@pytest.fixture
def server(tmp_path):
    with CertServer(tmp_path / "api") as running:
        yield running


@pytest.fixture
def cluster(server):
    client = connect(server.kubeconfig, in_cluster=False)
    yield Cluster(client, PLACE)
    client.close()


def test_what_is_not_there_is_nothing(server, cluster):
    server.cluster.configurations.clear()
    assert cluster.configurations() == ()
    assert cluster.secret().secret is None
    assert cluster.secret().data == {}


def test_the_time_is_that_of_the_api_server(cluster):
    assert abs(cluster.secret().now - dt.datetime.now(dt.UTC)) < dt.timedelta(seconds=10)


def test_a_secret_is_made_and_changed_with_its_other_keys_kept(server, cluster):
    cluster.write(cluster.secret(), {"tls.crt": b"one", "note": b"mine"})
    cluster.write(cluster.secret(), {"tls.crt": b"two"})
    assert cluster.secret().data == {"tls.crt": b"two", "note": b"mine"}
    server.cluster.secret.pop("data")
    cluster.write(cluster.secret(), {"tls.crt": b"three"})
    assert cluster.secret().data == {"tls.crt": b"three"}


def test_what_is_no_base64_counts_as_missing(server, cluster):
    cluster.write(cluster.secret(), {"tls.crt": b"one"})
    server.cluster.secret["data"].update({"tls.key": "%", "ca.crt": None})
    assert cluster.secret().data == {"tls.crt": b"one"}


def test_a_write_that_comes_too_late_is_a_conflict(cluster):
    nothing = cluster.secret()
    cluster.write(nothing, {"tls.crt": b"one"})
    old = cluster.secret()
    cluster.write(old, {"tls.crt": b"two"})
    for reading in (nothing, old):
        with pytest.raises(Conflict):
            cluster.write(reading, {"tls.crt": b"three"})
    assert cluster.secret().data == {"tls.crt": b"two"}


def test_ca_bundles_are_set_and_nothing_else(server, cluster):
    before = [each["webhooks"] for each in cluster.configurations()]
    kept = SelfManaged(cluster, NAMES, QUICK)
    offer = kept.read()
    after = [each["webhooks"] for each in cluster.configurations()]

    assert offer.trusted
    assert {b for each in cluster.configurations() for b in bundles(each).values()} == {cluster.secret().data["ca.crt"]}
    for hooks in after:
        for hook in hooks:
            hook["clientConfig"].pop("caBundle")
    assert after == before


@pytest.mark.parametrize("status", [401, 403, 500, 503])
def test_a_refusal_is_told_with_what_was_asked(server, cluster, status):
    server.refused["GET", "secrets"] = status
    with pytest.raises(Failed, match=rf"^Secret dravirt-system/dravirt-webhook-tls: {status}: refused by the test$"):
        cluster.secret()


def test_an_api_server_that_is_gone_is_told(tmp_path):
    with CertServer(tmp_path / "api") as server:
        client = connect(server.kubeconfig, in_cluster=False)
    with pytest.raises(Failed, match="Secret dravirt-system/dravirt-webhook-tls: "):
        Cluster(client, PLACE).secret()
    client.close()


def test_a_certificate_is_renewed_without_the_right_to_look_at_webhooks(server, cluster):
    kept = SelfManaged(cluster, NAMES, QUICK)
    kept.read()
    server.refused["GET", "webhookconfigurations"] = 403
    reading = cluster.secret()
    cluster.write(reading, {"tls.key": b"", "tls.crt": b""})

    offer = kept.read()

    assert "MutatingWebhookConfiguration dravirt: 403" in offer.detail
    assert cluster.secret().data["tls.crt"] == offer.chain
    assert cluster.secret().data["ca.crt"] == reading.data["ca.crt"]


def test_no_authority_is_made_without_a_look_at_what_is_trusted(server, cluster):
    server.refused["GET", "webhookconfigurations"] = 403
    with pytest.raises(Failed, match="MutatingWebhookConfiguration dravirt: 403"):
        SelfManaged(cluster, NAMES, QUICK).read()
    assert cluster.secret().secret is None


def test_a_bundle_that_cannot_be_set_is_told_and_the_certificate_served(server, cluster):
    server.refused["PATCH", "validatingwebhookconfigurations"] = 403
    offer = SelfManaged(cluster, NAMES, QUICK).read()
    assert not offer.trusted
    assert "ValidatingWebhookConfiguration dravirt: 403" in offer.detail
    assert "validating validate.pod.dravirt.io" in offer.detail


@pytest.mark.parametrize(
    "annotation", ["cert-manager.io/certificate-name", "service.beta.openshift.io/originating-service-name"]
)
def test_the_secret_of_another_controller_is_left_alone(server, cluster, annotation):
    cluster.write(Reading(dt.datetime.now(dt.UTC), None), {"tls.crt": b"theirs"})
    server.cluster.secret["metadata"]["annotations"] = {annotation: "x"}
    with pytest.raises(Refused, match="belongs to another controller"):
        SelfManaged(cluster, NAMES, QUICK).read()
    assert cluster.secret().data == {"tls.crt": b"theirs"}


def test_outside_a_cluster_a_kubeconfig_is_asked_for(tmp_path):
    with pytest.raises(Failed, match="name a kubeconfig with --kubeconfig"):
        connect(tmp_path / "none", in_cluster=False)


def test_inside_a_cluster_the_pods_own_account_counts(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(Failed, match="this is no pod of a cluster"):
        connect(None, in_cluster=True)
