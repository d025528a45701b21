"""What the other suites stand on: a control plane that serves all wire formats of DRA, and KubeVirt on it."""

import pytest

pytestmark = pytest.mark.cluster


def test_the_server_is_of_the_pinned_version(api):
    assert api.request("GET", "/version")["gitVersion"] == "v1.36.3"


def test_dra_is_served_in_all_its_wire_formats(api):
    group = api.request("GET", "/apis/resource.k8s.io")
    assert [each["version"] for each in group["versions"]] == ["v1", "v1beta2", "v1beta1"]


def test_kubevirt_answers_for_its_subresources(stack, api):
    _ = stack.kubevirt
    resources = api.request("GET", "/apis/subresources.kubevirt.io/v1")["resources"]
    assert "virtualmachines/restart" in [each["name"] for each in resources]
