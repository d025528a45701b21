"""The server's certificate changes while it serves: no connection is lost, and what cannot be used is not used."""

import argparse
import ssl
import threading
import time

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from support.admission import intent_of, launcher_pod
from support.reviews import mutated, review
from support.waiting import wait_until
from support.webhookserver import WebhookServer

from cli.throwaway import issue
from cli.webhook import add_arguments, run
from dra.errors import Failed, Refused
from webhook.tls import ServingTLS


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Two certificates of two authorities."""
    return [issue(tmp_path_factory.mktemp("tls")) for _ in range(2)]


def put(tls, pair):
    tls.swap(pair.certificate.read_bytes(), pair.key.read_bytes())


def serial_of(pair):
    return x509.load_pem_x509_certificate(pair.certificate.read_bytes()).serial_number


class Client:
    """The client's end of a handshake in memory."""

    def __init__(self, tls, *, name="localhost", maximum=None, alpn=()):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if alpn:
            context.set_alpn_protocols(list(alpn))
        if maximum:
            context.maximum_version = maximum
        ways = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.end = context.wrap_bio(ways[0], ways[1], server_hostname=name)
        server = tls.context.wrap_bio(ways[1], ways[0], server_side=True)
        for _ in range(4):
            for side in (self.end, server):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue

    @property
    def serial(self):
        return x509.load_der_x509_certificate(self.end.getpeercert(binary_form=True)).serial_number


@pytest.mark.parametrize("maximum", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("name", ["localhost", None], ids=["by name", "without a name"])
def test_tl06_the_next_handshake_gets_the_new_certificate(pairs, name, maximum):
    tls = ServingTLS()
    for pair in (*pairs, pairs[0]):
        put(tls, pair)
        assert Client(tls, name=name, maximum=maximum).serial == serial_of(pair)


def test_http_1_is_chosen_after_a_change_too(pairs):
    tls = ServingTLS()
    for pair in pairs:
        put(tls, pair)
        assert Client(tls, alpn=("h2", "http/1.1")).end.selected_alpn_protocol() == "http/1.1"


def test_without_a_certificate_nobody_is_served(pairs):
    tls = ServingTLS()
    with pytest.raises(ssl.SSLError):
        _ = Client(tls).serial
    put(tls, pairs[0])
    assert Client(tls).serial == serial_of(pairs[0])


def encrypted(pair):
    key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(b"secret")
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


BROKEN = {
    "the key is another's": lambda pair, other: (pair.certificate.read_bytes(), other.key.read_bytes()),
    "half a certificate": lambda pair, _: (pair.certificate.read_bytes()[:200], pair.key.read_bytes()),
    "half a key": lambda pair, _: (pair.certificate.read_bytes(), pair.key.read_bytes()[:60]),
    "nothing": lambda *_: (b"", b""),
    "an encrypted key": lambda pair, _: (pair.certificate.read_bytes(), encrypted(pair)),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_tl17_what_cannot_be_used_leaves_the_last_good_one(pairs, fault):
    tls = ServingTLS()
    put(tls, pairs[0])
    with pytest.raises(Failed) as failed:
        tls.swap(*BROKEN[fault](pairs[1], pairs[0]))
    assert failed.value.reason == "invalid_certificate"
    assert Client(tls).serial == serial_of(pairs[0])


def test_tls_1_2_is_the_oldest_and_1_3_may_be(pairs):
    for minimum, version in (("1.2", ssl.TLSVersion.TLSv1_2), ("1.3", ssl.TLSVersion.TLSv1_3)):
        tls = ServingTLS(minimum)
        put(tls, pairs[0])
        assert tls.context.minimum_version is version
        assert Client(tls).end.version() == "TLSv1.3"
    with pytest.raises(ssl.SSLError):
        Client(tls, maximum=ssl.TLSVersion.TLSv1_2)


def test_ciphers_may_be_named(pairs):
    tls = ServingTLS(ciphers="ECDHE-ECDSA-AES256-GCM-SHA384")
    put(tls, pairs[0])
    assert Client(tls, maximum=ssl.TLSVersion.TLSv1_2).end.cipher()[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"


def test_a_cipher_that_is_not_known_is_refused():
    with pytest.raises(Refused, match="OpenSSL knows none of the ciphers 'XXX'"):
        ServingTLS(ciphers="XXX")


def test_no_session_is_resumed_under_an_old_certificate(pairs):
    tls = ServingTLS()
    put(tls, pairs[0])
    client = Client(tls, maximum=ssl.TLSVersion.TLSv1_2)
    assert not client.end.session or not client.end.session.has_ticket


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "--plain-http --tls-cert a --tls-key b",
        "--tls-cert a",
        "--tls-key b",
        "--plain-http --tls-key b",
        "--tls-self-managed --plain-http",
        "--tls-self-managed --tls-cert a --tls-key b",
        "--tls-self-managed --tls-ca c",
    ],
)
def test_one_source_of_tls_is_given_whole(capsys, arguments):
    parser = argparse.ArgumentParser()
    add_arguments(parser)

    assert run(parser.parse_args(arguments.split())) == 2
    assert "give --tls-cert and --tls-key, or --tls-self-managed, or --plain-http" in capsys.readouterr().err


# The server as a process, with files as the kubelet mounts them.


class Mount:
    """A volume of the kubelet's: names link to `..data`, which is swapped as a whole."""

    def __init__(self, folder, pair):
        self.folder, self._count = folder, 0
        self.swap(pair.certificate.read_bytes(), pair.key.read_bytes(), pair.authority.read_bytes())
        for name in ("tls.crt", "tls.key", "ca.crt"):
            (folder / name).symlink_to(f"..data/{name}")

    def swap(self, *contents):
        self._count += 1
        generation = self.folder / f"..{self._count}"
        generation.mkdir()
        for name, content in zip(("tls.crt", "tls.key", "ca.crt"), contents, strict=True):
            (generation / name).write_bytes(content)
        link = self.folder / "..data_tmp"
        link.symlink_to(generation.name)
        link.rename(self.folder / "..data")


@pytest.fixture
def mount(tmp_path, pairs):
    folder = tmp_path / "mount"
    folder.mkdir()
    return Mount(folder, pairs[0])


@pytest.fixture
def server(tmp_path, pairs, mount):
    arguments = ["--drain-seconds", "0", "--interval", "1s", "--propagation", "2s", "--cert-lifetime", "1h"]
    certificate = type(pairs[0])(mount.folder / "tls.crt", mount.folder / "tls.key", pairs[0].authority)
    running = WebhookServer([*arguments, "--tls-ca", str(mount.folder / "ca.crt")], tmp_path, certificate)
    yield running
    running.end()


def served(server):
    pem = ssl.get_server_certificate(("127.0.0.1", server.port), timeout=10)
    return x509.load_pem_x509_certificate(pem.encode()).serial_number


def errors(server):
    return [line["message"] for line in server.log() if line["level"] == "error"]


def test_tl06_files_that_the_kubelet_swaps_are_served_within_seconds(server, mount, pairs):
    assert served(server) == serial_of(pairs[0])
    with server.client() as before:
        assert before.get("/healthz").status_code == httpx.codes.OK
        (stream, *_) = before._transport._pool.connections

        mount.swap(*(file.read_bytes() for file in (pairs[1].certificate, pairs[1].key, pairs[1].authority)))
        wait_until(lambda: served(server) == serial_of(pairs[1]))

        assert before.get("/healthz").status_code == httpx.codes.OK
        assert before._transport._pool.connections == [stream], "the connection in use survives"
    assert errors(server) == []


def test_tl17_half_of_a_pair_is_not_served_and_told_once(server, mount, pairs):
    old, new = pairs
    assert served(server) == serial_of(old)
    mount.swap(new.certificate.read_bytes(), old.key.read_bytes(), new.authority.read_bytes())
    wait_until(lambda: errors(server))
    begin = time.monotonic()
    while time.monotonic() < begin + 3:
        assert served(server) == serial_of(old)
        time.sleep(0.2)
    with server.client() as client:
        detail = client.get("/readyz").json()["conditions"]["certificate"]
    mount.swap(new.certificate.read_bytes(), new.key.read_bytes(), new.authority.read_bytes())
    wait_until(lambda: served(server) == serial_of(new))

    (error,) = errors(server)
    assert "the last good one stays in use" in error
    assert "the key is not the certificate's" in error
    assert detail["ready"] is True
    assert "the key is not the certificate's" in detail["detail"]


def test_certificates_change_under_load_without_a_lost_request(server, mount, pairs):
    failures, answers, stop = [], [], threading.Event()
    both = ssl.create_default_context(cadata="".join(pair.authority.read_text() for pair in pairs))
    port = server.port

    def ask():
        while not stop.is_set():
            try:
                with httpx.Client(verify=both, trust_env=False, timeout=20) as client:
                    answers.append(client.get(f"https://127.0.0.1:{port}/healthz").status_code)
            except httpx.HTTPError as error:
                failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for pair in (pairs[1], pairs[0], pairs[1]):
        mount.swap(*(file.read_bytes() for file in (pair.certificate, pair.key, pair.authority)))
        wait_until(lambda pair=pair: served(server) == serial_of(pair))
    stop.set()
    for thread in threads:
        thread.join()

    assert failures == []
    assert len(answers) > 20
    assert set(answers) == {httpx.codes.OK}


def authorities_of(server, path="/mutate/pod"):
    """Return the authorities in the intent of a pod that is made now."""
    pod = launcher_pod()
    with server.client() as client:
        answer = client.post(path, json=review(pod)).json()["response"]
    return intent_of(mutated(pod, answer))["service"]["ca"]


def test_sidecars_are_given_the_authorities_that_the_certificate_must_lead_to(tmp_path, mount, pairs):
    config = tmp_path / "config.yaml"
    config.write_text("allocationService: {}")
    both = "".join(pair.authority.read_text() for pair in pairs)
    arguments = ["--drain-seconds=0", "--interval=1s", "--propagation=2s", "--cert-lifetime=1h", f"--config={config}"]
    files = type(pairs[0])(mount.folder / "tls.crt", mount.folder / "tls.key", pairs[0].authority)
    server = WebhookServer([*arguments, f"--tls-ca={mount.folder}/ca.crt"], tmp_path, files)
    try:
        assert authorities_of(server) == pairs[0].authority.read_text()
        mount.swap(pairs[0].certificate.read_bytes(), pairs[0].key.read_bytes(), both.encode())
        wait_until(lambda: authorities_of(server) == both)
    finally:
        server.end()


def test_a_service_whose_authorities_nobody_knows_stops_the_start_and_says_what_to_set(tmp_path, pairs):
    config = tmp_path / "config.yaml"
    config.write_text("allocationService: {}")
    server = WebhookServer([f"--config={config}"], tmp_path, pairs[0])
    assert server.wait() == 1
    assert f"{config}: allocationService.caFile: must name the authorities" in server.log_file.read_text()


def test_a_key_that_does_not_fit_stops_the_start(tmp_path, pairs):
    mixed = type(pairs[0])(pairs[0].certificate, pairs[1].key, pairs[0].authority)
    server = WebhookServer([], tmp_path, mixed)
    assert server.wait() == 3
    text = server.log_file.read_text()
    assert f"with key {pairs[1].key}: the key is not the certificate's (reason: invalid_certificate)" in text


def test_a_certificate_that_is_missing_is_told_with_its_file(tmp_path, pairs):
    missing = type(pairs[0])(tmp_path / "none.crt", pairs[0].key, pairs[0].authority)
    server = WebhookServer([], tmp_path, missing)
    assert server.wait() == 3
    assert "none.crt: No such file or directory (reason: unreadable)" in server.log_file.read_text()
