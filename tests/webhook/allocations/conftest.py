"""A cluster in a folder, behind a real API over TLS, and the service that asks it."""

import asyncio

import pytest
from support.allocations import claim, pod, resource_slice
from support.apifolder import ApiFolder

from webhook.allocations import service
from webhook.allocations.gate import Gate
from webhook.allocations.service import AllocationService
from webhook.kubeaccess import find_access
from webhook.kubeclient import KubeClient
from webhook.kubedra import VERSIONS, Cluster


@pytest.fixture
def api(tmp_path):
    """A cluster in which the pod vm1 has a claim from a template; its token is `t1`."""
    with ApiFolder(tmp_path) as api:
        api.enter(pod("vm1"), "t1")
        api.put(claim("vm1-gpu0", owner=pod("vm1")), resource_slice())
        yield api


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Time enough, on a machine that has other things to do, for what is not about time."""
    monkeypatch.setattr(service, "SECONDS", 60)


@pytest.fixture
def with_cluster(api):
    """Do some asynchronous work with the cluster's client."""

    def with_cluster(work, versions=VERSIONS):
        async def run():
            client = KubeClient(find_access(api.kubeconfig))
            try:
                return await work(Cluster(client, versions))
            finally:
                await client.close()

        return asyncio.run(run())

    return with_cluster


@pytest.fixture
def ask(with_cluster):
    """Ask the service with a token, or with many at once: devices or an error for each."""

    def ask(*tokens, versions=VERSIONS, table=None, gate=None):
        async def work(cluster):
            asked = AllocationService(lambda: cluster, lambda: table or {}, gate or Gate())
            answers = [_devices(asked, token) for token in tokens]
            return await asyncio.gather(*answers, return_exceptions=len(tokens) > 1)

        answers = with_cluster(work, versions)
        return answers if len(tokens) > 1 else answers[0]

    return ask


async def _devices(asked, token):
    return (await asked.answer(token)).pod_claims
