"""`dravirt webhook --tls-self-managed` as a process, with an API server over real sockets."""

import json
import os
import ssl
import subprocess
import sys
import time

import httpx
import pytest
from support.certserver import CertServer
from support.webhookserver import WebhookServer

LIVES = ("--ca-lifetime=60s", "--cert-lifetime=12s", "--overlap=10s", "--propagation=2s", "--interval=1s")


class SelfManaged(WebhookServer):
    """The server with a certificate of its own making."""

    def __init__(self, api, folder):
        self.api = api
        super().__init__([], folder, None)

    def __post_init__(self):
        command = [sys.executable, "-m", "cli", "webhook", "--host=127.0.0.1", "--port=0", "--drain-seconds=0"]
        command += ["--tls-self-managed", f"--kubeconfig={self.api.kubeconfig}", *LIVES]
        with self.log_file.open("wb") as stderr:
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr, env=dict(os.environ))

    def ready(self):
        """Return /readyz as a client of the caBundle sees it, by the name of the Service."""
        context = ssl.create_default_context(cadata=self.api.cluster.data()["ca.crt"].decode())
        with httpx.Client(verify=context, trust_env=False, timeout=10) as client:
            name = {"sni_hostname": "dravirt-webhook.dravirt-system.svc"}
            return client.get(f"https://127.0.0.1:{self.port}/readyz", extensions=name).json()

    def wait_until(self, check, seconds=30):
        deadline = time.monotonic() + seconds
        while not check():
            assert time.monotonic() < deadline, self.log_file.read_text()[-3000:]
            time.sleep(0.1)


@pytest.fixture
def api(tmp_path):
    with CertServer(tmp_path / "api") as running:
        yield running


@pytest.fixture
def server(api, tmp_path):
    running = SelfManaged(api, tmp_path)
    yield running
    running.end()


def is_ready(server):
    try:
        return server.ready()["ready"]
    except (httpx.HTTPError, KeyError):
        return False


def test_it_makes_its_certificate_and_is_renewed_and_mended_while_it_serves(api, server):
    server.wait_until(lambda: is_ready(server))
    first = api.cluster.data()["tls.crt"]
    api.cluster.set_trust(None)

    server.wait_until(lambda: api.cluster.data()["tls.crt"] != first)
    server.wait_until(lambda: is_ready(server))

    assert "one that ends" in "".join(line["message"] for line in server.log())
    assert [line for line in server.log() if line["level"] == "error"] == []
    trust = {
        hook["clientConfig"].get("caBundle")
        for each in api.cluster.configurations.values()
        for hook in each["webhooks"]
    }
    assert len(trust) == 1
    assert server.rss() <= 80 * 1024, "the client of the API server is in memory, too"


@pytest.fixture
def refused(api):
    """An API server that refuses everything."""
    api.refused["GET", ""] = 503
    return api.refused


def test_without_an_api_server_it_waits_and_says_why(refused, api, server):
    url = f"https://127.0.0.1:{server.port}/readyz"
    with pytest.raises(httpx.HTTPError):
        httpx.get(url, verify=False, trust_env=False)
    server.wait_until(lambda: any("503: refused by the test" in line["message"] for line in server.log()))
    refused.clear()
    server.wait_until(lambda: is_ready(server), seconds=60)
    assert json.dumps(server.ready()["conditions"]["certificate"]) == '{"ready": true, "detail": ""}'


def test_lifetimes_that_cannot_work_stop_the_start(tmp_path, api):
    command = [sys.executable, "-m", "cli", "webhook", "--tls-self-managed", f"--kubeconfig={api.kubeconfig}"]
    done = subprocess.run([*command, "--overlap=1s"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "the overlap must be at least" in done.stderr
