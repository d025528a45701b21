"""What the process is told of its installation reaches the pods that it injects."""

import pytest
from support.admission import intent_of, launcher_pod, sidecar_of
from support.reviews import mutated, review
from support.webhookserver import WebhookServer

from cli.throwaway import issue

BY_VARIABLE = {
    "DRAVIRT_SIDECAR_IMAGE": "r.example:5000/hook@sha256:" + "0" * 64,
    "DRAVIRT_SERVICE": "test-hook",
    "POD_NAMESPACE": "gpus",
}


@pytest.fixture
def inject(tmp_path, monkeypatch):
    """Starts a server with options and returns a pod that it has injected."""
    for variable, value in BY_VARIABLE.items():
        monkeypatch.setenv(variable, value)
    config, certificate = tmp_path / "config.yaml", issue(tmp_path)
    servers = []

    def _inject(*options, text="allocationService: {}"):
        config.write_text(text)
        given = [f"--config={config}", f"--tls-ca={certificate.authority}", "--drain-seconds=0", *options]
        servers.append(WebhookServer(given, tmp_path, certificate))
        pod = launcher_pod()
        with servers[-1].client() as client:
            answer = client.post("/mutate/pod", json=review(pod)).json()["response"]
        return mutated(pod, answer)

    yield _inject
    for server in servers:
        server.end()


def test_variables_reach_the_pod(inject):
    pod = inject()
    assert sidecar_of(pod)["image"] == BY_VARIABLE["DRAVIRT_SIDECAR_IMAGE"]
    assert intent_of(pod)["service"]["url"] == "https://test-hook.gpus.svc:443"
    assert intent_of(pod)["service"]["serverName"] == "test-hook.gpus.svc"


def test_options_come_before_variables(inject):
    pod = inject("--sidecar-image=r/option:1", "--service=other", "--namespace=vgpus")
    assert sidecar_of(pod)["image"] == "r/option:1"
    assert intent_of(pod)["service"]["serverName"] == "other.vgpus.svc"


def test_the_file_comes_before_both(inject):
    text = "sidecar: {image: 'r/file:1'}\nallocationService: {serverName: file.example}"
    pod = inject("--sidecar-image=r/option:1", text=text)
    assert sidecar_of(pod)["image"] == "r/file:1"
    assert intent_of(pod)["service"]["serverName"] == "file.example"
