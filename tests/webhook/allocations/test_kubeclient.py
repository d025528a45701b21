"""The client of the API server: bounded, and clear about what it did not get."""

import pytest
from support.allocations import pod

from dra.errors import Failed
from dra.reasons import Reason
from webhook import kubeclient

POD = "/api/v1/namespaces/team-a/pods/vm1"


def get(with_cluster, path):
    return with_cluster(lambda cluster: cluster._client.get(path))


def failure(with_cluster, work):
    with pytest.raises(Failed) as failed:
        with_cluster(work)
    assert failed.value.reason is Reason.API_UNAVAILABLE
    return failed.value.message


def test_an_object_comes_as_the_server_sent_it(with_cluster):
    assert get(with_cluster, POD) == pod("vm1")


def test_what_is_not_there_is_none(with_cluster):
    assert get(with_cluster, POD + "x") is None


def test_an_answer_without_end_is_not_kept(with_cluster, monkeypatch):
    monkeypatch.setattr(kubeclient, "MAX_RESPONSE", 100)
    assert "larger than 100 bytes" in failure(with_cluster, lambda cluster: cluster._client.get(POD))


@pytest.mark.parametrize("value", ["text", [1]], ids=["text", "list"])
def test_what_is_no_object_is_a_failure(api, with_cluster, value):
    api.write("pods/team-a/vm1", value)
    assert "no JSON object" in failure(with_cluster, lambda cluster: cluster._client.get(POD))


def test_a_path_that_is_not_served_cannot_be_posted_to(with_cluster):
    message = failure(with_cluster, lambda cluster: cluster._client.post("/apis/x/v1/y", {}))
    assert "does not serve /apis/x/v1/y" in message


def test_the_servers_words_are_passed_on_and_cut(api, with_cluster):
    api.fail({"path": POD, "status": 403, "message": "pods is forbidden " * 100})
    message = failure(with_cluster, lambda cluster: cluster._client.get(POD))
    assert "403: pods is forbidden" in message
    assert len(message) < 600
