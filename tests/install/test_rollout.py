"""Replicas that are replaced one after the other: no admission is lost, and no VM notices."""

import pytest
from cluster.api import ApiError

pytestmark = pytest.mark.install


def uids(pods):
    return {each["metadata"]["uid"] for each in pods}


def test_a_rolling_update_loses_no_admission(installation, witness, load):
    before = uids(installation.wait_until_ready())

    with load() as running:
        installation.kubectl("-n", installation.namespace, "rollout", "restart", "deployment", "dravirt-webhook")
        after = uids(installation.wait_until_ready())
        running.go_on()

    assert not before & after
    assert running.failures == []
    assert witness.is_untouched()


def test_an_eviction_of_both_replicas_leaves_one(api, installation, load):
    """As when two nodes are drained at once: the disruption budget holds the second one back."""
    first, second = installation.wait_until_ready()

    with load() as running:
        evict(api, first)
        with pytest.raises(ApiError, match="disruption budget"):
            evict(api, second)
        installation.wait_until_ready()
        running.go_on()

    assert running.failures == []


def evict(api, pod):
    metadata = {name: pod["metadata"][name] for name in ("name", "namespace")}
    path = api.path("v1", "Pod", metadata["namespace"], metadata["name"])
    api.request("POST", f"{path}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata})
