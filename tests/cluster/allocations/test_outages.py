"""The service dies, before a VM starts and after it was defined: the owner reads why, and no VM gets another device."""

import pytest

from cluster import machines
from cluster.allocations.site import attached

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
