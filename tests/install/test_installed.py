"""After `kubectl apply -k`: two replicas with no more rights than they need, asked through their Service."""

import base64
import json

import pytest
from cluster.api import ApiError

from install.installation import KINDS, REGISTRATION

pytestmark = pytest.mark.install


def test_two_replicas_are_ready(installation):
    pods = installation.wait_until_ready()

    assert [each["spec"]["serviceAccountName"] for each in pods] == ["dravirt-webhook"] * 2
    assert {each["spec"]["priorityClassName"] for each in pods} == {"system-cluster-critical"}


def test_the_namespace_takes_restricted_pods_only(api, installation):
    pod = {"containers": [{"name": "c", "image": "registry.example/pause:1"}]}
    metadata = {"name": "unrestricted", "namespace": installation.namespace}

    with pytest.raises(ApiError, match='violates PodSecurity "restricted'):
        api.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}, dryRun="All")


def test_every_webhook_trusts_the_authority_of_the_secret(installation):
    (bundle,) = set(installation.bundles())

    assert bundle == installation.secret()["ca.crt"]
    assert base64.b64decode(bundle).startswith(b"-----BEGIN CERTIFICATE-----")


def test_its_account_may_keep_its_own_certificate_and_nothing_more(cluster, installation):
    account = cluster.control_plane.api()
    account.act_as(f"system:serviceaccount:{installation.namespace}:dravirt-webhook")
    own = installation.secret_object()
    other = {**own, "metadata": {**own["metadata"], "name": "other"}}
    registration = {"apiVersion": REGISTRATION, "kind": KINDS[0], "metadata": {"name": "virt-api-mutator"}}

    assert account.refresh(own)
    for call, *arguments in (
        (account.refresh, other),
        (account.merge, other, {"data": {}}),
        (account.list, "v1", "Secret", installation.namespace),
        (account.list, "v1", "Pod", installation.namespace),
        (account.merge, registration, {"webhooks": None}),
    ):
        with pytest.raises(ApiError, match="403"):
            call(*arguments)


def test_the_log_is_of_a_quiet_start(installation, node):
    for pod in installation.wait_until_ready():
        lines = [json.loads(line[line.index("{") :]) for line in node.logs(pod, "webhook").splitlines()]
        assert {each["level"] for each in lines} == {"info"}
