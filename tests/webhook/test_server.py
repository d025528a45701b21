"""The server as a process: TLS, bodies of any size, configuration that changes, and a stop that loses nothing."""

import contextlib
import http.client
import json
import signal
import socket
import ssl
import time

import httpx
import pytest
from support.reviews import review
from support.waiting import wait_until
from support.webhookserver import WebhookServer

from cli.throwaway import issue
from dra.errors import Failed
from webhook.app import create_app
from webhook.config import Config
from webhook.intake import MAX_BODY
from webhook.readiness import Readiness
from webhook.server import Address, serve

VMI = {"group": "kubevirt.io", "version": "v1", "kind": "VirtualMachineInstance"}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return issue(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def running(tmp_path_factory, certificate):
    """Starts servers, each with its own folder for the log, and ends them."""
    servers = []

    def _start(*arguments):
        arguments = [str(argument) for argument in arguments]
        servers.append(WebhookServer(arguments, tmp_path_factory.mktemp("server"), certificate))
        return servers[-1]

    yield _start
    for server in servers:
        server.end()


@pytest.fixture(scope="module")
def server(running):
    """A server that all tests share which do not stop it."""
    return running("--drain-seconds", "0")


@pytest.fixture
def start(running):
    """Starts a server of the test's own."""
    return running


def vmi_review():
    """The review of a VMI that asks for one device."""
    metadata = {"name": "vm", "namespace": "team-a", "annotations": {"dravirt.io/devices": "a100-1-10c"}}
    spec = {"domain": {"devices": {}}}
    item = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": metadata, "spec": spec}
    return review(item, VMI, name="vm")


def admit(client):
    response = client.post("/mutate/vmi?timeout=5s", json=vmi_review())
    assert response.status_code == httpx.codes.OK
    return response.json()["response"]


def connect(server, alpn=None):
    """Return a TLS connection to the server."""
    context = server.tls
    if alpn:
        context.set_alpn_protocols(alpn)
    return context.wrap_socket(
        socket.create_connection(("127.0.0.1", server.port), timeout=20), server_hostname="localhost"
    )


def test_reviews_are_answered_over_tls(server):
    with server.client() as client:
        assert admit(client)["patchType"] == "JSONPatch"
        assert client.get("/readyz").json()["ready"] is True
        assert client.get("/healthz").status_code == httpx.codes.OK
        assert "server" not in client.get("/healthz").headers


def test_wh26_http_1_is_chosen_where_a_client_offers_http_2(server):
    with connect(server, ["h2", "http/1.1"]) as connection:
        assert connection.selected_alpn_protocol() == "http/1.1"


def test_wh26_a_client_that_offers_http_2_only_gets_none(server):
    with connect(server, ["h2"]) as connection:
        assert connection.selected_alpn_protocol() is None


def test_one_connection_serves_many_reviews(server):
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=server.tls)
    ports = set()
    for _ in range(3):
        connection.request("POST", "/mutate/vmi", json.dumps(vmi_review()), {"Content-Type": "application/json"})
        ports.add(connection.sock.getsockname()[1])
        response = connection.getresponse()
        assert response.status == httpx.codes.OK
        assert json.loads(response.read())["response"]["allowed"] is True
    connection.close()

    assert len(ports) == 1


HEAD = b"POST /mutate/pod HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
MEBIBYTE = b"x" * 2**20


def test_wh24_a_stream_without_a_length_is_refused_after_the_limit_and_memory_stays_flat(server):
    with server.client() as client:
        admit(client)
    before = server.rss()

    with connect(server) as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        sent = 0
        with contextlib.suppress(ConnectionError, ssl.SSLError):  # closed by the server, with more to come
            for _ in range(50):
                connection.sendall(b"100000\r\n" + MEBIBYTE + b"\r\n")
                sent += len(MEBIBYTE)
        status = http.client.HTTPResponse(connection)
        status.begin()
        assert status.status == httpx.codes.REQUEST_ENTITY_TOO_LARGE
    assert sent >= MAX_BODY, "it was refused after the limit, not before"

    assert server.rss() - before < 4 * MAX_BODY / 1024
    with server.client() as client:
        assert admit(client)["allowed"] is True


def test_wh24_a_length_above_the_limit_is_refused_before_the_body_comes(server):
    with connect(server) as connection:
        connection.sendall(HEAD + b"Content-Length: 52428800\r\n\r\n")
        response = http.client.HTTPResponse(connection)
        response.begin()

        assert response.status == httpx.codes.REQUEST_ENTITY_TOO_LARGE


HEADS = {
    "one header": (b"X: ", b"x" * 4096),
    "many headers": (b"", b"X: y\r\n" * 700),
    "the path": (b"", b""),
}


@pytest.mark.parametrize("head", HEADS)
def test_wh24_a_head_without_end_is_refused_and_memory_stays_flat(server, head):
    with server.client() as client:
        admit(client)
    before = server.rss()
    begin, more = HEADS[head]
    with connect(server) as connection:
        connection.sendall(HEAD + begin if begin or more else b"POST /mutate/")
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            for _ in range(5000):
                connection.sendall(more or b"x" * 4096)
        response = http.client.HTTPResponse(connection)
        response.begin()

        assert response.status == httpx.codes.BAD_REQUEST

    assert server.rss() - before < 4 * 1024


def test_a_head_of_the_length_that_is_allowed_is_read(server):
    with server.client() as client:
        for _ in range(2):  # on one connection: the count begins anew
            response = client.post("/mutate/vmi", json=vmi_review(), headers={"X": "x" * 40_000})
            assert response.status_code == httpx.codes.OK


@pytest.mark.parametrize(
    "hello",
    [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" + b"\xff" * 500],
    ids=["nothing", "plain HTTP", "broken TLS"],
)
def test_what_is_no_tls_harms_nobody(server, hello):
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(hello)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(4096):
            pass

    with server.client() as client:
        assert admit(client)["allowed"] is True
    assert server.log(), "every line is JSON"


def test_a_client_that_leaves_in_the_middle_of_its_review_harms_nobody(server):
    with connect(server) as connection:
        connection.sendall(HEAD + b"Content-Length: 1000\r\n\r\n" + b"x" * 100)

    with server.client() as client:
        assert admit(client)["allowed"] is True
    assert [line["level"] for line in server.log() if line["level"] == "error"] == []


def test_memory_stays_below_its_budget(server):
    with server.client() as client:
        for _ in range(300):
            admit(client)

    assert server.rss() <= 80 * 1024


def test_a_changed_configuration_counts_without_a_restart(start, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("mode: placeholder\n")
    server = start("--config", file, "--drain-seconds", "0")
    with server.client() as client:
        assert "patch" in admit(client)

        file.write_text("mode: append\n")
        wait_until(lambda: "patch" not in admit(client))

        file.write_text("mode: [\n")
        detail = lambda: client.get("/readyz").json()["conditions"]["configuration"]["detail"]  # noqa: E731
        wait_until(detail)

        assert "the last good one is used" in detail()
        assert client.get("/readyz").status_code == httpx.codes.OK
        assert "patch" not in admit(client)


def test_sigterm_drains_and_ends_with_code_0(start):
    server = start("--drain-seconds", "5")
    with server.client() as client:
        admit(client)
        server.send(signal.SIGTERM)
        deadline = time.monotonic() + 4.5
        while client.get("/readyz").status_code != httpx.codes.SERVICE_UNAVAILABLE:
            assert time.monotonic() < deadline

        assert client.get("/healthz").status_code == httpx.codes.OK
        assert admit(client)["allowed"] is True, "reviews are answered while the endpoint is removed"

    assert server.wait() == 0


def test_a_review_under_way_is_answered_before_the_end(start):
    server, body = start("--drain-seconds", "0"), json.dumps(vmi_review()).encode()
    with connect(server) as connection:
        head = HEAD.replace(b"/mutate/pod", b"/mutate/vmi") + b"Content-Length: %d\r\n" % len(body)
        connection.sendall(head + b"Expect: 100-continue\r\n\r\n")
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body[:100])
        server.send(signal.SIGTERM)
        wait_until(lambda: any(line["message"].startswith("draining") for line in server.log()))
        connection.sendall(body[100:])
        response = http.client.HTTPResponse(connection)
        response.begin()

        assert response.status == httpx.codes.OK
        assert json.loads(response.read())["response"]["allowed"] is True

    assert server.wait() == 0


def test_an_idle_connection_ends_with_the_server_and_a_person_need_not_wait(start):
    server = start("--drain-seconds", "60")
    with connect(server) as connection:
        server.send(signal.SIGTERM)
        server.send(signal.SIGINT)

        assert connection.recv(1) == b""

    assert server.wait() == 0
    assert server.log()[-1]["message"] == "stopped"


def test_hs21_a_wrong_image_stops_the_start_and_is_named(start, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("sidecar:\n  image: ''\n")

    server = start("--config", file)

    assert server.wait() == 1
    assert f"{file}: sidecar.image: must be an image reference" in server.log_file.read_text()


def test_a_port_that_is_taken_is_told():
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(Failed, match=r"cannot listen on 127\.0\.0\.1:"),
    ):
        serve(
            create_app(Config, Readiness({}), print),
            Address(*taken.getsockname()),
            None,
            Readiness({}),
            drain_seconds=0,
        )
