"""A control plane, the webhook's server with the rights that `deploy/` gives it, and pods as KubeVirt makes them.

Only in the sandbox that `run.py` makes: elsewhere nothing here is collected.
"""

import itertools
import json
import os
import sys
from dataclasses import dataclass

import pytest
from cluster import sandbox
from cluster.apiserver import ApiServer
from cluster.controlplane import WEBHOOK
from cluster.dravirt import allocation_rights
from cluster.process import Process, Processes
from cluster.stack import open_stack
from integration.allocations.site import Site
from support.examples import ROOT

if sandbox.current() is None:
    collect_ignore_glob = ["test_*.py"]

HOST, PORT = "127.0.0.1", 9453
NAME = "dravirt-webhook.dravirt-system.svc"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def stack():
    with open_stack(sandbox.current()) as opened:
        _ = opened.handmade_nodes
        yield opened


@pytest.fixture(scope="session")
def kubeconfig(stack):
    """The webhook's access: its service account, bound to the ClusterRole of `deploy/` and nothing else."""
    for each in allocation_rights():
        stack.api.apply(each)
    return stack.control_plane.kubeconfig(WEBHOOK)


@pytest.fixture(scope="session")
def server(stack, kubeconfig):
    """The webhook's server as a process that can be killed and started again."""
    pair = stack.control_plane.authority.issue("allocations", NAME)
    config = stack.state / "allocations.json"
    config.write_text(
        json.dumps({"allocationService": {"caFile": str(stack.control_plane.authority.pair.certificate)}})
    )
    command = [sys.executable, "-m", "cli", "webhook", f"--host={HOST}", f"--port={PORT}", f"--config={config}"]
    command += [
        "--health-port=0",
        f"--tls-cert={pair.certificate}",
        f"--tls-key={pair.key}",
        f"--kubeconfig={kubeconfig}",
    ]
    server = Server(stack.processes, command)
    server.start()
    return server


@dataclass
class Server:
    processes: Processes
    command: list[str]
    process: Process | None = None

    def start(self):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = self.processes.start("allocations", self.command, environment=environment)
        self.process.wait_until_listening(HOST, PORT, seconds=120)

    def kill(self):
        self.process.kill()


@pytest.fixture(scope="session")
def service(stack, server):
    """The intent's `service` for the server."""
    assert server
    ca = stack.control_plane.authority.pair.certificate.read_text()
    return {"url": f"https://{HOST}:{PORT}", "ca": ca, "serverName": NAME}


@pytest.fixture(scope="session")
def api_server(stack):
    return ApiServer(stack)


@pytest.fixture
def site(stack, service, kubeconfig, tmp_path):
    """A namespace of the test's own, and what a VM's owner and a driver do there."""
    site = Site(stack, service, kubeconfig, f"a{next(_numbers)}", tmp_path)
    site.enter()
    yield site
    site.clear()
