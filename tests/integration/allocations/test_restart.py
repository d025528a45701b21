"""While the API server restarts, pods are told to come again, and then they are answered as before."""

from contextlib import suppress

import httpx
import pytest
from cluster import machines
from cluster.api import ApiError
from integration.allocations.site import found

from dra.errors import Failed
from dra.reasons import Reason

DRIVER = "vgpu.restart.example"
UUID = "5f0e2a54-6c1d-4b7a-9f33-000000000000"


def test_an_api_server_that_restarts_is_waited_for(site, stack):
    site.publish(DRIVER, {"name": "v0", "attributes": {"mdevUUID": {"string": UUID}}})
    site.template("t", machines.request(DRIVER))
    token = site.token(site.pod("vm1", gpu0={"resourceClaimTemplateName": "t"}))
    before = site.ask(token)
    assert found(before) == {"dravirt-gpu0": [("gpu", "v0", UUID)]}

    server = stack.control_plane.processes["kube-apiserver"]
    server.kill()
    with pytest.raises(Failed) as failed:
        site.ask(token)
    assert failed.value.reason is Reason.API_UNAVAILABLE

    again = stack.processes.start("kube-apiserver-again", server._popen.args)
    again.wait_until(lambda: _answer(site, token), seconds=90, what="answering")
    assert site.ask(token) == before


def _answer(site, token):
    with suppress(Failed, ApiError, httpx.TransportError):
        return site.ask(token)
    return None
