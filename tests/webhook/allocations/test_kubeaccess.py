"""Where the API server is and as whom it is asked."""

import base64
import json
import ssl

import pytest

from cli.throwaway import issue
from dra.errors import Failed, Refused
from dra.reasons import Reason
from webhook import kubeaccess
from webhook.kubeaccess import find_access


@pytest.fixture
def pki(tmp_path):
    return issue(tmp_path)


def kubeconfig(folder, cluster, user, **more):
    path = folder / "kubeconfig"
    config = {
        "clusters": [{"name": "other", "cluster": {}}, {"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(config | more))
    return path


def test_a_pod_asks_as_its_service_account_with_the_token_of_the_moment(tmp_path, pki, monkeypatch):
    monkeypatch.setattr(kubeaccess, "SERVICE_ACCOUNT", tmp_path)
    (tmp_path / "token").write_text("first\n")
    access = find_access(None, {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"})
    assert access.url == "https://10.96.0.1:443"
    assert access.token() == "first"
    (tmp_path / "token").write_text("second")
    assert access.token() == "second"
    assert access.tls.verify_mode is ssl.CERT_REQUIRED
    assert len(access.tls.get_ca_certs()) == 1
    assert pki.authority == tmp_path / "ca.crt"


def test_an_address_of_six_is_put_in_brackets(tmp_path, pki, monkeypatch):
    monkeypatch.setattr(kubeaccess, "SERVICE_ACCOUNT", tmp_path)
    access = find_access(None, {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"})
    assert access.url == "https://[fd00::1]:443"
    assert pki.key.exists()


@pytest.mark.parametrize("environ", [{}, {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}], ids=["nothing", "no port"])
def test_outside_a_cluster_a_kubeconfig_is_asked_for(environ):
    with pytest.raises(Failed, match="--kubeconfig") as failed:
        find_access(None, environ)
    assert failed.value.reason is Reason.API_UNAVAILABLE


def test_a_pod_without_a_service_account_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(kubeaccess, "SERVICE_ACCOUNT", tmp_path)
    with pytest.raises(Failed) as failed:
        find_access(None, {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"})
    assert failed.value.reason is Reason.UNREADABLE


@pytest.mark.parametrize("inline", [True, False], ids=["data", "file"])
def test_the_current_context_counts(tmp_path, pki, inline):
    cluster = {"server": "https://api.example:6443/"}
    if inline:
        cluster["certificate-authority-data"] = base64.b64encode(pki.authority.read_bytes()).decode()
    else:
        cluster["certificate-authority"] = "ca.crt"
    access = find_access(kubeconfig(tmp_path, cluster, {"token": "t"}))
    assert (access.url, access.token()) == ("https://api.example:6443", "t")
    assert len(access.tls.get_ca_certs()) == 1


def test_a_client_certificate_will_do(tmp_path, pki):
    data = {f"client-{name}-data": base64.b64encode(file.read_bytes()).decode() for name, file in files(pki)}
    access = find_access(kubeconfig(tmp_path, {"server": "https://a"}, data))
    assert access.token() is None
    names = {f"client-{name}": file.name for name, file in files(pki)}
    assert find_access(kubeconfig(tmp_path, {"server": "https://a"}, names)).url == "https://a"


def files(pki):
    return (("certificate", pki.certificate), ("key", pki.key))


def test_a_token_file_is_read_each_time(tmp_path):
    file = tmp_path / "token"
    file.write_text("first")
    access = find_access(kubeconfig(tmp_path, {"server": "https://a"}, {"tokenFile": "token"}))
    file.write_text("second")
    assert access.token() == "second"


WRONG = {
    "no context": ({"current-context": None}, "current-context: is required"),
    "another context": ({"current-context": "y"}, "contexts: has no entry called 'y'"),
    "a helper": (
        {"users": [{"name": "u", "user": {"exec": {"command": "rm"}}}]},
        "users[0].user.exec: programs are not run",
    ),
    "no server": ({"clusters": [{"name": "c", "cluster": {}}]}, "clusters[0].cluster.server: is required"),
    "authority that is no base64": (
        {"clusters": [{"name": "c", "cluster": {"certificate-authority-data": "?"}}]},
        "clusters[0].cluster.certificate-authority-data: is not base64",
    ),
    "a list": ({"contexts": {}}, "contexts: must be a list"),
}


@pytest.mark.parametrize(("more", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_kubeconfig_is_refused_with_the_field(tmp_path, more, message):
    path = kubeconfig(tmp_path, {"server": "https://a"}, {"token": "t"}, **more)
    with pytest.raises(Refused) as refused:
        find_access(path)
    assert str(refused.value).startswith(f"{path}.{message}")


def test_a_kubeconfig_that_is_no_yaml_or_no_certificate_says_so(tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text("{")
    with pytest.raises(Refused, match="is not YAML"):
        find_access(path)
    (tmp_path / "bad.crt").write_text("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n")
    cluster = {"server": "https://a", "certificate-authority": "bad.crt"}
    with pytest.raises(Failed):
        find_access(kubeconfig(tmp_path, cluster, {"token": "t"}))
