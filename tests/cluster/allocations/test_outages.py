"""What is missing, the service, its authority or metadata: the owner reads why, and no VM gets another device."""

import pytest

from cluster import machines
from cluster.api import ApiError
from cluster.handler import attached

pytestmark = pytest.mark.node
ASKS = machines.devices({"name": "gpu0", "resourceClaimName": "mine"})


@pytest.fixture(autouse=True)
def claim(site):
    site.claim("mine", machines.request("time-sliced"))


@pytest.mark.usefixtures("silent")
def test_a_vm_that_starts_without_the_service_reads_why_and_gets_its_device_when_it_is_back(site):
    # Admission needs the same server: it dies when the pod is there and its sidecar is still to ask.
    with site.drivers.changed(error="not yet"):
        pod = site.apply(asks=ASKS)
        site.service.down()
    try:
        pod = site.running(pod)
        error = site.define(pod).error
        assert not site.said(pod, "devices found")
    finally:
        site.service.up()
    for words in ("service_unreachable", "Connection refused", "Metadata: ", "Environment: ", "Service: "):
        assert words in error, words
    assert list(attached(site.defined(pod)).values()) == site.identities()
    assert site.sources(pod) == {"service"}


def test_a_killed_sidecar_is_ready_again_with_service_authority_and_metadata_gone(site):
    pod, definition = site.boot(asks=ASKS)
    before = attached(definition)
    assert site.sources(pod) == {"metadata"}  # (confirmed by the service, since others may share the claim)
    authority = site.service.config.with_name("authority.crt")
    site.service.down()
    authority.unlink()
    try:
        with site.drivers.changed(written="empty"):
            pod = site.kill_sidecar(pod)
            assert attached(site.define(pod)) == before
            assert site.said(pod, "devices are known from before the restart")
    finally:
        authority.write_text(site.stack.control_plane.authority.pem)
        site.service.up()


def test_a_claim_whose_metadata_is_elsewhere_is_warned_of_and_found_by_the_service(site):
    """As a copy of a generated claim: the driver puts the file below the pod claim of its annotation."""
    key = "resource.kubernetes.io/pod-claim-name"
    item = machines.claim(site.namespace, "mine", machines.request("vf"))
    site.api.delete(item)
    item["metadata"]["annotations"] = {key: "elsewhere"}
    site.api.apply(item)

    pod, definition = site.boot(asks=ASKS)

    assert list(attached(definition).values()) == site.identities()
    assert site.sources(pod) == {"service"}
    site.api.apply(machines.vm(site.namespace, "vm2", asks=ASKS, running=False))
    assert [each for each in site.api.warnings if key in each], site.api.warnings


def test_a_claim_that_the_vm_names_itself_is_refused_since_its_pod_would_wait_for_ever(site):
    vm = machines.vm(site.namespace, asks=ASKS)
    vm["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "own", "resourceClaimName": "mine"}]
    with pytest.raises(ApiError, match="claim_twice"):
        site.api.apply(vm)
