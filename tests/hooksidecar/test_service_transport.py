"""One question over real TLS: whom the sidecar trusts, what it says, and what it makes of an answer."""

import json
import socket
import ssl
import threading
from dataclasses import replace

import pytest
from cluster.pki import Authority

from cli.throwaway import issue
from dra.errors import DravirtError, Failed, Refused
from dra.intent import ServiceAddress
from dra.reasons import Reason
from hooksidecar.service import ask_service
from hooksidecar.transport import ask

DEVICE = {"request": "r", "driver": "d.example", "pool": "p", "device": "v0", "shareID": None}
ANSWER = json.dumps({"version": 1, "podClaims": {"dravirt-gpu0": [DEVICE]}}).encode()


class OneAnswer:
    """A TLS server that answers each connection with the same bytes, and keeps what it was sent."""

    def __init__(self, folder):
        self.certificate = issue(folder)
        self.reply = reply(200, ANSWER)
        self.requests = []
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self.certificate.certificate, self.certificate.key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.05)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    @property
    def port(self):
        return self._listener.getsockname()[1]

    def close(self):
        self._stop.set()
        self._thread.join()
        self._listener.close()

    def _serve(self):
        while not self._stop.is_set():
            try:
                plain, _ = self._listener.accept()
            except TimeoutError:
                continue
            with plain:
                try:
                    plain.settimeout(5)
                    with self._context.wrap_socket(plain, server_side=True) as connection:
                        self.requests.append(_read(connection))
                        connection.sendall(self.reply)
                except OSError:
                    continue


def _read(connection):
    data = b""
    while b"\r\n\r\n" not in data or len(data.partition(b"\r\n\r\n")[2]) < _length(data):
        data += connection.recv(65536)
    return data.decode()


def _length(data):
    (line,) = [line for line in data.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    return int(line.split(b":")[1])


def reply(status, body=b"", **headers):
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


@pytest.fixture
def server(tmp_path):
    server = OneAnswer(tmp_path)
    yield server
    server.close()


@pytest.fixture
def address(server, tmp_path):
    """The service at an address, with a certificate for the name localhost."""
    token = tmp_path / "token"
    token.write_text("first\n")
    ca = server.certificate.authority.read_text()
    return ServiceAddress(f"https://127.0.0.1:{server.port}", ca, "localhost", str(token))


def failure(address, family=Failed):
    with pytest.raises(family) as failed:
        ask_service(address)
    assert "\n" not in failed.value.message
    return failed.value


def test_the_question_holds_the_token_and_the_version(server, address):
    assert list(ask_service(address)) == ["dravirt-gpu0"]
    head, _, body = server.requests[0].partition("\r\n\r\n")
    assert head.startswith("POST /v1/allocations HTTP/1.1\r\n")
    assert "Authorization: Bearer first\r\n" in head + "\r\n"
    assert json.loads(body) == {"version": 1}


def test_the_token_is_read_for_each_question(server, address, tmp_path):
    ask(address)
    (tmp_path / "token").write_text("second")
    ask(address)
    assert "Bearer second\r\n" in server.requests[1]


def test_the_token_may_be_a_link_as_the_kubelet_makes_it(server, address, tmp_path):
    data = tmp_path / "..2026_11_30"
    data.mkdir()
    (data / "token").write_text("linked")
    (tmp_path / "..data").symlink_to(data.name)
    (tmp_path / "token").unlink()
    (tmp_path / "token").symlink_to("..data/token")
    ask(address)
    assert "Bearer linked\r\n" in server.requests[0]


@pytest.mark.parametrize("content", [None, b"", b"\xff"], ids=["missing", "empty", "no text"])
def test_without_a_token_nothing_is_asked(server, address, tmp_path, content):
    (tmp_path / "token").unlink() if content is None else (tmp_path / "token").write_bytes(content)
    assert "the token cannot be read" in failure(address).message
    assert server.requests == []


# Whom it trusts.


def test_the_name_is_verified_also_where_the_address_is_fixed(server, address):
    error = failure(replace(address, server_name="dravirt-webhook.dravirt-system.svc"))
    assert error.reason is Reason.SERVICE_UNREACHABLE
    assert "certificate verify failed" in error.message
    assert "dravirt-webhook.dravirt-system.svc" in error.message
    assert server.requests == []


def test_no_other_authority_is_trusted(server, address, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    error = failure(replace(address, ca=issue(other).authority.read_text()))
    assert "certificate verify failed" in error.message
    assert server.requests == []


def test_two_authorities_are_trusted_while_one_replaces_the_other(address, tmp_path):
    other = Authority(tmp_path / "other").pem
    assert ask_service(replace(address, ca=other + address.ca))
    assert ask_service(replace(address, ca=address.ca + other))


@pytest.mark.parametrize("ca", ["", "no certificate"], ids=["empty", "text"])
def test_an_intent_without_an_authority_trusts_nobody(server, address, ca):
    assert failure(replace(address, ca=ca)).reason is Reason.SERVICE_UNREACHABLE
    assert server.requests == []


# Where it cannot be reached.


UNREACHABLE = {
    "nobody listens": ("https://127.0.0.1:9", "Connection refused"),
    "no such name": ("https://dravirt-webhook.invalid:443", "https://dravirt-webhook.invalid:443: "),
    "no TLS": (None, ""),
}


@pytest.mark.parametrize("case", ["nobody listens", "no such name"])
def test_a_missing_network_is_one_clear_line(address, case):
    url, text = UNREACHABLE[case]
    error = failure(replace(address, url=url))
    assert error.reason is Reason.SERVICE_UNREACHABLE
    assert error.message.startswith(url)
    assert text in error.message


BROKEN = {
    "nothing": b"",
    "no HTTP": b"hello\r\n\r\n",
    "cut": reply(200, ANSWER)[:-10],
    "an endless head": b"HTTP/1.1 200 X\r\n" + b"a: b\r\n" * 1000,
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_a_connection_that_breaks_is_a_retry(server, address, data):
    server.reply = data
    assert failure(address).reason is Reason.SERVICE_UNREACHABLE


# What it makes of an answer.


def said(code, message="why"):
    return json.dumps({"reason": code, "message": message}).encode()


ANSWERS = {
    "refused": (reply(403, said("pod_mismatch")), Refused, Reason.POD_MISMATCH),
    "held": (reply(409, said("claim_held")), Refused, Reason.CLAIM_HELD),
    "held by one who leaves": (reply(409, said("claim_held"), Retry_After=1), Failed, Reason.CLAIM_HELD),
    "busy": (reply(503, said("busy"), Retry_After=1), Failed, Reason.BUSY),
    "a defect": (reply(500, said("internal_error")), Failed, Reason.INTERNAL_ERROR),
    "a code of a newer release": (reply(409, said("on_strike")), Refused, Reason.UNRESOLVED),
    "a proxy": (reply(502, b"<html>Bad Gateway</html>"), Failed, Reason.SERVICE_UNREACHABLE),
    "another server": (reply(404, b'{"detail":"Not Found"}'), Failed, Reason.SERVICE_UNREACHABLE),
    "a redirect": (reply(302, b"", Location="https://evil.example"), Failed, Reason.SERVICE_UNREACHABLE),
    "no JSON": (reply(200, b"ok"), Refused, Reason.INVALID_ANSWER),
    "another version": (reply(200, b'{"version": 2, "podClaims": {}}'), Refused, Reason.INVALID_ANSWER),
    "too large": (reply(200, b" " * (2 * 1024 * 1024 + 1)), Refused, Reason.INVALID_ANSWER),
}


@pytest.mark.parametrize(("data", "family", "reason"), ANSWERS.values(), ids=ANSWERS)
def test_each_answer_has_its_meaning(server, address, data, family, reason):
    server.reply = data
    error = failure(address, DravirtError)
    assert (type(error), error.reason) == (family, reason)


def test_the_services_own_words_are_passed_on(server, address):
    server.reply = reply(409, said("claim_held", "ResourceClaim 'mine' is held by pod 'other'"))
    assert failure(address, Refused).message == "409 claim_held: ResourceClaim 'mine' is held by pod 'other'"
