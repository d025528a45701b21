"""`dravirt certs` against an API server over real sockets: what it prints, and its exit codes."""

import json
import logging
import re
import socket

import pytest
from support.authorities import NAMES, days
from support.certserver import CertServer

from certs.certificates import issue, new_authority, read_certificates, write_certificates, write_key
from certs.material import read_material
from cli.main import main


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # the command sets its own up
    with CertServer(tmp_path / "api") as running:
        yield running


@pytest.fixture
def certs(server, capsys):
    def _certs(*arguments):
        code = main(["certs", arguments[0], "--kubeconfig", str(server.kubeconfig), *arguments[1:]])
        return code, *capsys.readouterr()

    return _certs


def test_an_empty_cluster_has_a_problem_and_what_comes_next(certs):
    code, out, _ = certs("status")
    assert code == 1
    assert "problem      the certificate: there is none (reason: invalid_certificate)" in out
    assert "next" in out


def test_init_makes_what_is_missing_and_says_so(certs, server):
    code, out, err = certs("init")
    assert (code, out) == (0, "")
    assert "Secret dravirt-system/dravirt-webhook-tls: new authority: there is none whose key is known" in err
    assert "MutatingWebhookConfiguration dravirt: caBundle set" in err
    assert "next, " in err
    before = json.dumps(server.cluster.secret)
    assert certs("init")[0] == 0
    assert json.dumps(server.cluster.secret) == before


def test_status_tells_a_person_all_there_is(certs):
    certs("init")
    code, out, _ = certs("status")
    assert code == 0
    assert out.startswith("Secret dravirt-system/dravirt-webhook-tls, kept by dravirt\n  authority    ")
    assert "(365 days left), signs\n" in out
    assert "for dravirt-webhook.dravirt-system.svc, dravirt-webhook.dravirt-system, dravirt-webhook\n" in out
    assert "webhook      mutating pod.dravirt.io trusts it\n" in out
    assert out.count("next         ") == 2
    assert "problem" not in out


def test_status_tells_a_machine_the_same(certs):
    certs("init")
    code, out, _ = certs("status", "-o", "json")
    report = json.loads(out)
    assert code == 0
    assert report["problems"] == []
    assert report["certificate"]["issuer"] == report["authorities"][0]["fingerprint"]
    assert {each["name"]: each["trusts"] for each in report["webhooks"]} == {
        "mutating vm.dravirt.io": True,
        "mutating vmi.dravirt.io": True,
        "mutating pod.dravirt.io": True,
        "validating validate.pod.dravirt.io": True,
    }
    assert [each["what"] for each in report["next"]] == ["new certificate", "new authority"]


def test_a_webhook_that_does_not_trust_it_is_a_problem(certs, server):
    certs("init")
    server.cluster.set_trust(None, of=0)
    code, out, _ = certs("status")
    assert code == 1
    assert "mutating vm.dravirt.io does not trust it" in out
    assert "(reason: untrusted_certificate)" in out


def test_webhooks_that_are_not_registered_are_a_problem(certs, server):
    certs("init")
    server.cluster.configurations.clear()
    assert "no webhook is registered (reason: untrusted_certificate)" in certs("status")[1]


def authorities(server):
    material, _ = read_material(server.cluster.data())
    return material


def test_rotate_makes_an_authority_and_leaves_the_certificate(certs, server):
    certs("init")
    before = authorities(server)
    code, _, err = certs("rotate")
    after = authorities(server)
    assert code == 0
    assert after.bundle[1:] == before.bundle
    assert after.leaf == before.leaf
    assert "signed by the new authority" in err


def test_rotate_makes_a_certificate_alone_where_asked(certs, server):
    certs("init")
    before = authorities(server)
    assert certs("rotate", "--cert")[0] == 0
    after = authorities(server)
    assert after.bundle == before.bundle
    assert after.leaf != before.leaf


def test_rotate_at_once_trusts_nothing_of_before(certs, server):
    certs("init")
    before = authorities(server)
    assert certs("rotate", "--at-once")[0] == 0
    after = authorities(server)
    assert len(after.bundle) == 1
    assert after.bundle != before.bundle
    assert certs("status")[0] == 0


def test_a_change_that_is_asked_for_is_made_once_however_often_it_is_tried(certs, server):
    certs("init")
    server.refused["PATCH", "mutatingwebhookconfigurations"] = 409
    assert certs("rotate")[0] == 3
    assert len(authorities(server).bundle) == 2


def test_export_gives_what_a_server_needs_and_no_authoritys_key(certs, server, tmp_path):
    certs("init")
    assert certs("export")[1].encode() == server.cluster.data()["ca.crt"]
    folder = tmp_path / "new" / "tls"
    assert certs("export", "--dir", str(folder))[0] == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        name: server.cluster.data()[name] for name in ("ca.crt", "tls.crt", "tls.key")
    }
    assert (folder / "tls.key").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("arguments", [("export",), ("export", "--dir", "tls")])
def test_there_is_nothing_to_export_before(certs, arguments):
    code, out, err = certs(*arguments)
    assert (code, out) == (1, "")
    assert "(reason: invalid_certificate)" in err


@pytest.fixture
def theirs(server):
    """A Secret as cert-manager writes it: no authority's key."""
    import datetime as dt

    now = dt.datetime.now(dt.UTC)
    authority = new_authority(now, days(100))
    leaf = issue(authority, NAMES, now, days(10))
    bundle = write_certificates([authority.certificate])
    server.cluster.set_secret(
        {"ca.crt": bundle, "tls.crt": write_certificates([leaf.certificate]), "tls.key": write_key(leaf.key)}
    )
    server.cluster.set_trust(bundle)
    return server


def test_status_reads_what_others_keep(certs, theirs):
    code, out, _ = certs("status")
    assert code == 0
    assert "not by dravirt" in out
    assert "the certificate ends: whoever issues it renews it before" in out


def test_status_reads_a_secret_without_an_authority(certs, theirs):
    # OpenShift's service CA: the authority is in the caBundles only
    data = theirs.cluster.data()
    theirs.cluster.set_secret({name: data[name] for name in ("tls.crt", "tls.key")})
    code, out, _ = certs("status")
    assert code == 0
    assert "signed by an authority that is not in the Secret" in out


@pytest.mark.parametrize("arguments", [("init",), ("rotate",), ("rotate", "--at-once")])
def test_what_others_keep_is_theirs_to_rotate(certs, theirs, arguments):
    before = theirs.cluster.data()
    code, _, err = certs(*arguments)
    assert code == 1
    assert "(reason: not_self_managed)" in err
    assert theirs.cluster.data() == before


@pytest.mark.parametrize("action", ["status", "init", "rotate", "export"])
def test_an_api_server_that_refuses_is_worth_another_try(certs, server, action):
    server.refused["GET", "secrets"] = 403
    code, out, err = certs(action)
    assert (code, out) == (3, "")
    assert "Secret dravirt-system/dravirt-webhook-tls: 403: refused by the test (reason: api_unavailable)" in err


NO_BASE64 = """
clusters: [{name: c, cluster: {server: https://h, certificate-authority-data: abc}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""
BROKEN = {
    "broken YAML": ("clusters: [", "expected the node content"),
    "a scalar": ("hello", "holds no kubeconfig"),
    "a number": ("7", "holds no kubeconfig"),
    "a list": ("- a\n", "holds no kubeconfig"),
    "empty": ("", "file is empty"),
    "a mapping of something else": ("kind: Pod\n", "current-context"),
    "no such context": ("{clusters: [], users: [], contexts: [], current-context: x}", "with name x in"),
    "clusters that are none": ("{clusters: 7, users: x, contexts: {}, current-context: x}", "holds no kubeconfig"),
    "a server's authority that is no base64": (NO_BASE64, "holds no kubeconfig"),
}


@pytest.mark.parametrize(("content", "message"), BROKEN.values(), ids=BROKEN)
def test_a_kubeconfig_that_is_none_is_refused_by_its_name(tmp_path, capsys, content, message):
    file = tmp_path / "kubeconfig"
    file.write_text(content)
    code = main(["certs", "status", "--kubeconfig", str(file)])
    out, err = capsys.readouterr()
    assert (code, out) == (1, "")
    assert str(file) in err
    assert message in err
    assert err.endswith("(reason: invalid_configuration)\n")


@pytest.mark.parametrize("way", ["option", "variable"])
def test_a_kubeconfig_that_is_missing_is_named(tmp_path, capsys, monkeypatch, way):
    missing = str(tmp_path / "missing")
    monkeypatch.setenv("KUBECONFIG", missing)
    code = main(["certs", "status", *(["--kubeconfig", missing] if way == "option" else [])])
    out, err = capsys.readouterr()
    assert (code, out) == (3, "")
    assert err.startswith(f"dravirt certs: {missing}: No such file or directory")


def test_one_of_several_kubeconfigs_is_enough(server, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}:{server.kubeconfig}")
    assert main(["certs", "init"]) == 0
    assert capsys.readouterr().out == ""


def test_an_api_server_that_is_away_is_told_in_one_line(tmp_path, capsys, server):
    kubeconfig = tmp_path / "away"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    kubeconfig.write_text(re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{port}", server.kubeconfig.read_text()))
    code = main(["certs", "status", "--kubeconfig", str(kubeconfig)])
    out, err = capsys.readouterr()
    assert (code, out) == (3, "")
    assert err.count("\n") == 1
    assert "Connection refused" in err


def test_lifetimes_that_cannot_work_are_refused(certs):
    code, _, err = certs("status", "--overlap", "1s")
    assert code == 1
    assert "the overlap must be at least 2 times the propagation time (reason: invalid_configuration)" in err


def test_certificates_are_those_of_the_service_that_is_named(certs, server):
    certs("init", "--service", "hook", "--namespace", "gpu", "--cluster-domain", "cluster.local")
    (leaf,) = read_certificates(server.cluster.data()["tls.crt"])
    assert "DNSName(value='hook.gpu.svc.cluster.local')" in str(leaf.extensions)
