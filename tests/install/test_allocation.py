"""The component `allocation-service`: sidecars ask the installation through its Service, by their tokens."""

import json

import pytest
from cluster.allocations.conftest import silent  # noqa: F401 (a fixture)
from cluster.allocations.site import Site
from cluster.allocations.test_devices import CASES
from cluster.handler import attached

pytestmark = [pytest.mark.install, pytest.mark.usefixtures("silent")]


@pytest.fixture(scope="module")
def service(installation):
    """The installation with the component, which it keeps, found by the address of its Service: no DNS runs here."""
    service = installation.api.get("v1", "Service", "dravirt-webhook", installation.namespace)
    value = json.dumps({"allocationService": {"url": f"https://{service['spec']['clusterIP']}:443"}})
    operation = {"op": "replace", "path": "/data/allocation-service.yaml", "value": value}
    patch = {"target": {"kind": "ConfigMap"}, "patch": json.dumps([operation])}
    installation.components = ["allocation-service"]
    installation.patches.append(patch)
    installation.apply()
    # A replica that starts has the configuration at once, one that runs when the kubelet has written it.
    installation.kubectl("-n", installation.namespace, "rollout", "restart", "deployment", "dravirt-webhook")
    # ... and one that drains goes on by what it has read.
    installation.wait_until_ready(alone=True)
    return installation


@pytest.fixture
def site(cluster, service, namespace):
    """The test's namespace."""
    return Site(cluster, service, namespace)


@pytest.mark.parametrize("case", ["template", "two-drivers"])
def test_a_vm_gets_the_devices_that_were_allocated(site, case):
    pod, definition = CASES[case].start(site)

    assert list(attached(definition).values()) == site.identities()
    assert site.sources(pod) == {"service"}
