"""Deadlines of connections, with real sockets on a server whose deadlines are short."""

import json
import resource
import socket
import time
from contextlib import ExitStack, contextmanager

import httpx
import pytest
from support.reviews import review
from support.webhookserver import WebhookServer

from cli.throwaway import issue
from webhook.connection import MAX_HEAD

REQUEST, IDLE, HANDSHAKE = 1.0, 4.0, 1.5
MOST = 20
FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
SHORT = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, {FILES}))
from webhook import connection, server
connection.REQUEST_SECONDS, server.KEEP_ALIVE_SECONDS, server.HANDSHAKE_SECONDS = {REQUEST}, {IDLE}, {HANDSHAKE}
from cli.main import run
run()
"""
FEW = f"""
from webhook import connection
connection.MAX_CONNECTIONS = {MOST}
from cli.main import run
run()
"""
LATE = 3.0
"""What a busy machine may need more."""
HEALTHZ = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
VMI = {"group": "kubevirt.io", "version": "v1", "kind": "VirtualMachineInstance"}


class Impatient(WebhookServer):
    """The server with short deadlines."""

    program = ("-c", SHORT)


class Crowded(WebhookServer):
    """The server that takes few connections."""

    program = ("-c", FEW)


@contextmanager
def serving(kind, folder):
    running = kind(["--drain-seconds", "0"], folder, issue(folder))
    try:
        yield running
    finally:
        running.end()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(Impatient, tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def patient(tmp_path_factory):
    """A server with the product's own deadlines, for what is not about them."""
    with serving(WebhookServer, tmp_path_factory.mktemp("patient")) as running:
        yield running


@pytest.fixture(params=["TLS", "health port"])
def connect(request):
    """Open a connection to one of the two ports of a server."""

    def connected(server):
        port = server.port if request.param == "TLS" else server.health_port
        plain = socket.create_connection(("127.0.0.1", port), timeout=20)
        return server.tls.wrap_socket(plain, server_hostname="localhost") if request.param == "TLS" else plain

    return connected


@pytest.fixture
def connection(server, connect):
    """A connection to one of the two ports."""
    with connect(server) as connected:
        yield connected


def seconds_until_the_end(connection, begin, *, trickle=b""):
    """Return how long the server keeps the connection, while a byte of `trickle` is sent every tenth of a second.

    It counts from `begin`, before what starts the deadline is sent: a busy machine makes it longer, never shorter.
    """
    connection.settimeout(0.1)
    until = time.monotonic() + 15
    while time.monotonic() < until:
        try:
            if trickle:
                connection.sendall(trickle[:1])
                trickle = trickle[1:]
            if connection.recv(4096) == b"":
                break
        except TimeoutError:
            continue
        except OSError:  # (reset: it has closed with bytes of ours unread)
            break
    return time.monotonic() - begin


def ask(connection, request=HEALTHZ):
    connection.sendall(request)
    answer = b""
    while not answer.endswith(b"}"):
        answer += connection.recv(4096)
    assert answer.startswith(b"HTTP/1.1 200 ")


def all_of(connection):
    """Return what comes until the server ends the connection."""
    answer = b""
    while piece := connection.recv(65536):
        answer += piece
    return answer


def test_a_head_that_comes_slowly_ends_the_connection(connection):
    assert len(HEALTHZ) * 0.1 > 3 * REQUEST
    begin = time.monotonic()
    assert REQUEST * 0.9 <= seconds_until_the_end(connection, begin, trickle=HEALTHZ) < 3 * REQUEST


def test_a_head_that_never_ends_ends_the_connection(connection):
    begin = time.monotonic()
    connection.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
    assert REQUEST * 0.9 <= seconds_until_the_end(connection, begin, trickle=b"y" * 1000) <= REQUEST + LATE


def test_the_next_head_has_a_deadline_as_well(connection):
    ask(connection)
    begin = time.monotonic()
    connection.sendall(b"GET /heal")
    assert REQUEST * 0.9 <= seconds_until_the_end(connection, begin) <= REQUEST + LATE


def test_a_body_that_nobody_reads_has_one_too(connection):
    ask(connection, HEALTHZ.replace(b"\r\n\r\n", b"\r\nContent-Length: 1000\r\n\r\n"))
    assert seconds_until_the_end(connection, time.monotonic(), trickle=b"y" * 1000) <= REQUEST + LATE


def test_a_body_that_comes_after_its_answer_leaves_the_connection_idle(connection):
    ask(connection, HEALTHZ.replace(b"\r\n\r\n", b"\r\nContent-Length: 4\r\n\r\n"))
    begin = time.monotonic()
    connection.sendall(b"late")
    assert IDLE * 0.9 <= seconds_until_the_end(connection, begin) <= IDLE + LATE


def test_a_body_brings_no_more_beside_it_than_a_head_may_hold(connection):
    chunked = HEALTHZ.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ")
    connection.sendall(chunked + b"y" * MAX_HEAD)
    assert b"HTTP/1.1 400 " in all_of(connection)


def test_a_large_body_of_small_chunks_is_taken(patient):
    size = 4096
    chunk = b"%x\r\n%s\r\n" % (size, b" " * size)
    head = (
        b"POST /mutate/pod HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    plain = socket.create_connection(("127.0.0.1", patient.port), timeout=20)
    with patient.tls.wrap_socket(plain, server_hostname="localhost") as connection:
        connection.sendall(head + chunk * (6 * 1024 * 1024 // size) + b"0\r\n\r\n")
        assert b"the body is not JSON" in connection.recv(65536)


def test_a_client_that_takes_no_answers_loses_its_connection(server):
    metrics, until = HEALTHZ.replace(b"healthz", b"metrics"), time.monotonic() + 60
    with server.client() as other, socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # (full after a few answers, not thousands)
        silent.settimeout(20)
        silent.connect(("127.0.0.1", server.health_port))

        def ask_until_the_end():
            while time.monotonic() < until:
                silent.sendall(metrics)
                other.get(f"http://127.0.0.1:{server.health_port}/healthz")  # (answered after the one before it)

        with pytest.raises(ConnectionError):
            ask_until_the_end()


def test_a_client_that_does_not_wait_for_an_answer_loses_its_connection(connection):
    connection.sendall(HEALTHZ * 2)
    assert b"HTTP/1.1 400 " in all_of(connection)


def test_a_connection_that_sends_nothing_is_kept_as_long_as_an_idle_one_and_no_longer(server, connect):
    begin = time.monotonic()
    with connect(server) as connection:
        assert IDLE * 0.9 <= seconds_until_the_end(connection, begin) <= IDLE + LATE


def test_an_idle_connection_outlives_the_deadline_of_a_request(connection):
    ask(connection)
    deadline = time.monotonic() + 2 * REQUEST
    connection.settimeout(0.1)
    while time.monotonic() < deadline:
        with pytest.raises(TimeoutError):
            connection.recv(1)
    connection.settimeout(20)
    begin = time.monotonic()
    ask(connection)
    assert IDLE * 0.9 <= seconds_until_the_end(connection, begin) <= IDLE + LATE


def test_a_connection_made_in_advance_serves_a_review_later(server):
    plain = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    item = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": "vm"}, "spec": {}}
    body = json.dumps(review(item, VMI, name="vm")).encode()
    head = b"POST /mutate/vmi HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    with server.tls.wrap_socket(plain, server_hostname="localhost") as connection:
        connection.settimeout(1.5 * REQUEST)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.settimeout(20)
        ask(connection, head % len(body) + body)


def test_an_answer_comes_in_one_piece(connection):
    connection.sendall(HEALTHZ)
    assert connection.recv(65536).endswith(b'\r\n\r\n{"status":"ok"}')  # (over TLS: of one record)


def test_a_client_that_waits_to_be_told_to_go_on_is_told(patient):
    head = b"POST /mutate/pod HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
    plain = socket.create_connection(("127.0.0.1", patient.port), timeout=20)
    with patient.tls.wrap_socket(plain, server_hostname="localhost") as connection:
        connection.sendall(head + b"Content-Length: 2\r\n\r\n")
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"{}")
        assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")


def test_an_answer_that_ends_the_connection_is_sent_before(connection):
    connection.sendall(HEALTHZ.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    assert all_of(connection).endswith(b'\r\n\r\n{"status":"ok"}')


def test_a_handshake_has_a_deadline(server):
    begin = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as silent:
        assert HANDSHAKE * 0.9 <= seconds_until_the_end(silent, begin) <= HANDSHAKE + LATE


def test_one_connection_too_many_ends_the_one_that_has_been_idle_longest(tmp_path, connect):
    with serving(Crowded, tmp_path) as crowded, ExitStack() as stack:
        first, second, *others = (stack.enter_context(connect(crowded)) for _ in range(MOST))
        for each in (first, *others):  # (clocks of event loops count in milliseconds: they may all have come in one)
            ask(each)
        another = stack.enter_context(connect(crowded))
        ask(another)
        assert seconds_until_the_end(second, time.monotonic()) < 10
        for each in (first, *others):
            ask(each)


def test_requests_that_are_still_coming_keep_no_connection_out(tmp_path, connect):
    with serving(Crowded, tmp_path) as crowded, ExitStack() as stack:
        for each in [stack.enter_context(connect(crowded)) for _ in range(MOST)]:
            ask(each)
            each.sendall(b"GET /heal")
        another = stack.enter_context(connect(crowded))
        ask(another)
        ask(another)


def test_as_many_files_may_be_open_as_can_be_had(server):
    assert f"process_max_fds {float(FILES)}" in server.health("/metrics").text


def test_connections_that_ended_late_left_nothing_behind(server):
    with server.client() as client:
        assert client.get("/healthz").status_code == httpx.codes.OK
    assert [line for line in server.log() if line["level"] == "error"] == []
