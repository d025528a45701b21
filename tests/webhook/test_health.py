"""The health port of the server as a process: from before its certificate until after its last answer."""

import signal
import socket

import httpx
import pytest
from support.reviews import review
from support.waiting import wait_until
from support.webhookserver import WebhookServer

from cli.throwaway import issue

VMI = {"group": "kubevirt.io", "version": "v1", "kind": "VirtualMachineInstance"}


@pytest.fixture
def start(tmp_path):
    """Starts a server, and ends it."""
    servers = []

    def _start(*arguments):
        servers.append(WebhookServer([*arguments], tmp_path, issue(tmp_path)))
        return servers[-1]

    yield _start
    for server in servers:
        server.end()


def admit(client):
    item = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": "vm"}, "spec": {}}
    return client.post("/mutate/vmi", json=review(item, VMI, name="vm")).json()["response"]["allowed"]


def test_it_answers_without_tls_what_the_kubelet_and_prometheus_ask(start):
    server = start("--drain-seconds=0")
    assert server.health("/healthz").json() == {"status": "ok"}
    assert server.health("/readyz").json()["ready"] is True
    metrics = server.health("/metrics")
    assert metrics.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'dravirt_ready{condition="certificate"} 1.0' in metrics.text
    assert server.health("/mutate/vmi").status_code == httpx.codes.NOT_FOUND
    assert server.health("/v1/allocations").status_code == httpx.codes.NOT_FOUND


def test_metrics_are_not_served_where_every_pod_can_ask(start):
    with start("--drain-seconds=0").client() as client:
        assert client.get("/metrics").status_code == httpx.codes.NOT_FOUND
        assert client.get("/readyz").json()["ready"] is True


def test_its_address_is_told_once(start):
    server = start("--drain-seconds=0")
    port = server.health_port
    server.send(signal.SIGTERM)
    assert server.wait() == 0
    told = [line["message"] for line in server.log() if line["message"].startswith("health and metrics at ")]
    assert told == [f"health and metrics at http://127.0.0.1:{port}"]


def test_it_is_not_ready_from_the_first_moment_of_a_drain_and_lives_to_its_end(start):
    server = start("--drain-seconds=60")
    with server.client() as client:
        assert admit(client)
        server.send(signal.SIGTERM)
        wait_until(lambda: server.health("/readyz").status_code == httpx.codes.SERVICE_UNAVAILABLE)
        assert server.health("/readyz").json()["conditions"]["serving"] == {"ready": False, "detail": "draining"}
        assert server.health("/healthz").status_code == httpx.codes.OK
        assert admit(client), "reviews are answered while the endpoint is removed"
        server.send(signal.SIGINT)  # (a person need not wait for the minute)
    assert server.wait() == 0


def test_it_answers_while_the_last_review_is_finished(start):
    server = start("--drain-seconds=0")
    ports = server.port, server.health_port
    with server.tls.wrap_socket(socket.create_connection(("127.0.0.1", ports[0])), server_hostname="localhost") as last:
        last.sendall(
            b"POST /mutate/vmi HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"
        )
        wait_until(lambda: 'dravirt_ready{condition="serving"} 1.0' in server.health("/metrics").text)
        server.send(signal.SIGTERM)
        wait_until(lambda: _is_refused(ports[0]))

        assert server.health("/readyz").status_code == httpx.codes.SERVICE_UNAVAILABLE
        last.sendall(b"{}")
        assert last.recv(12) == b"HTTP/1.1 400"
    assert server.wait() == 0
    assert _is_refused(ports[1])


def _is_refused(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def test_both_families_are_answered(start):
    server = start("--drain-seconds=0", "--host=")
    hosts = ["127.0.0.1"] + (["[::1]"] if socket.has_dualstack_ipv6() else [])
    for host in hosts:
        answer = httpx.get(f"http://{host}:{server.health_port}/readyz", trust_env=False, timeout=20)
        assert answer.status_code == httpx.codes.OK


def test_a_health_port_that_is_taken_is_told(start):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = start(f"--health-port={port}")
        assert server.wait() == 3
    assert f"cannot listen on 127.0.0.1:{port}: " in server.log_file.read_text()
