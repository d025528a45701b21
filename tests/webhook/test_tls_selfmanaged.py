"""`dravirt webhook --tls-self-managed` as a process, with an API server over real sockets."""

import json
import os
import ssl
import subprocess
import sys
import time

import httpx
import pytest
from support.admission import intent_of, launcher_pod
from support.certserver import CertServer
from support.reviews import mutated, review
from support.webhookserver import WebhookServer

LIVES = ("--ca-lifetime=60s", "--cert-lifetime=12s", "--overlap=10s", "--propagation=2s", "--interval=1s")


class SelfManaged(WebhookServer):
    """The server with a certificate of its own making."""

    def __init__(self, api, folder, *arguments, environ=os.environ):
        self.api, self.environ = api, dict(environ)
        super().__init__([*arguments], folder, None)

    def __post_init__(self):
        command = [sys.executable, "-m", "cli", "webhook", "--host=127.0.0.1", "--port=0", "--health-port=0"]
        command += ["--drain-seconds=0", "--tls-self-managed", f"--kubeconfig={self.api.kubeconfig}", *LIVES]
        command += self.arguments
        with self.log_file.open("wb") as stderr:
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr, env=self.environ)

    def ask(self, method, path, **content):
        """Return what a client of the caBundle is answered, by the name of the Service."""
        context = ssl.create_default_context(cadata=self.api.cluster.data()["ca.crt"].decode())
        with httpx.Client(verify=context, trust_env=False, timeout=10) as client:
            name = {"sni_hostname": "dravirt-webhook.dravirt-system.svc"}
            return client.request(method, f"https://127.0.0.1:{self.port}{path}", extensions=name, **content).json()

    def ready(self):
        """Return /readyz likewise."""
        return self.ask("GET", "/readyz")

    def intent(self):
        """Return the intent of a pod that is made now."""
        pod = launcher_pod()
        answer = self.ask("POST", "/mutate/pod", json=review(pod))["response"]
        return intent_of(mutated(pod, answer))

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


def test_its_memory_stays_small_with_the_client_of_the_api_server_in_it(api, tmp_path):
    unmeasured = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    server = SelfManaged(api, tmp_path, environ=unmeasured)
    try:
        server.wait_until(lambda: is_ready(server))
        first = api.cluster.data()["tls.crt"]
        server.wait_until(lambda: api.cluster.data()["tls.crt"] != first)
        server.wait_until(lambda: is_ready(server))
        assert server.rss() <= 80 * 1024
    finally:
        server.end()


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


def test_before_its_first_certificate_it_answers_the_kubelet_and_is_not_ready(refused, api, server):
    server.wait_until(lambda: server.health("/readyz").json()["conditions"]["certificate"]["detail"])
    answer = server.health("/readyz")
    assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert not answer.json()["conditions"]["certificate"]["ready"]
    assert server.health("/healthz").status_code == httpx.codes.OK
    assert "dravirt_certificate_failures_total 0.0" not in server.health("/metrics").text
    refused.clear()
    server.wait_until(lambda: server.health("/readyz").status_code == httpx.codes.OK, seconds=60)
    metrics = server.health("/metrics").text
    assert "dravirt_certificate_reloads_total 1.0" in metrics
    assert 'dravirt_certificate_expiry_timestamp_seconds{certificate="ca"}' in metrics


@pytest.fixture
def serving_allocations(api, tmp_path):
    """The server with the allocation service, and no file that names its authorities."""
    config = tmp_path / "config.yaml"
    config.write_text("allocationService: {}")
    running = SelfManaged(api, tmp_path, f"--config={config}")
    yield running
    running.end()


def test_sidecars_are_given_the_authorities_of_the_moment(api, serving_allocations):
    server = serving_allocations
    server.wait_until(lambda: is_ready(server))
    first = api.cluster.data()["ca.crt"].decode()
    assert server.intent()["service"]["ca"] == first

    command = [sys.executable, "-m", "cli", "certs", "rotate", f"--kubeconfig={api.kubeconfig}", *LIVES]
    subprocess.run(command, capture_output=True, check=True, timeout=60)
    both = api.cluster.data()["ca.crt"].decode()
    assert both.count("BEGIN CERTIFICATE") == 2

    server.wait_until(lambda: server.intent()["service"]["ca"] == both)
    assert server.ready()["conditions"]["authorities"] == {"ready": True, "detail": ""}


def test_while_its_authorities_are_not_known_it_is_not_ready_for_them(refused, serving_allocations):
    server = serving_allocations
    condition = server.health("/readyz").json()["conditions"]["authorities"]
    assert condition == {
        "ready": False,
        "detail": "the authorities of the webhook's certificate are not known yet",
    }
    refused.clear()
    server.wait_until(lambda: server.health("/readyz").json()["conditions"]["authorities"]["ready"], seconds=60)


def test_lifetimes_that_cannot_work_stop_the_start(tmp_path, api):
    command = [sys.executable, "-m", "cli", "webhook", "--tls-self-managed", f"--kubeconfig={api.kubeconfig}"]
    done = subprocess.run([*command, "--overlap=1s"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "the overlap must be at least" in done.stderr
