"""`dravirt doctor` against an API server over real sockets: what it asks, prints and changes, and its exit codes."""

import datetime as dt
import json
import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support import doctorfacts as facts
from support.doctorserver import DoctorServer

from certs.certificates import issue, new_authority, write_certificates, write_key
from cli.main import main

HERE = Path(__file__).parent
KUBEVIRTS = "/apis/kubevirt.io/v1/kubevirts"
VMS = "/apis/kubevirt.io/v1/virtualmachines"
MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
ENDPOINTS = f"/apis/discovery.k8s.io/v1/namespaces/{facts.NAMESPACE}/endpointslices"
SECRET = f"/api/v1/namespaces/{facts.NAMESPACE}/secrets/{facts.SERVICE}-tls"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{facts.NAMESPACE}/deployments/{facts.SERVICE}"


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.delenv("POD_NAMESPACE", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    # The certificates of the facts have their own date.
    monkeypatch.setattr("certs.cluster.Sent.date", facts.NOW)
    with DoctorServer(tmp_path / "api").prepare() as running:
        yield running


@pytest.fixture
def doctor(server, capsys):
    def _doctor(*arguments):
        code = main(["doctor", "--kubeconfig", str(server.kubeconfig), *arguments])
        return code, *capsys.readouterr()

    return _doctor


def found(out: str) -> set[str]:
    return {each["code"] for each in json.loads(out)["findings"]}


def broken(server) -> None:
    """Break a thing of each severity."""
    permitted = {"permittedHostDevices": {"pciHostDevices": [{"resourceName": "nvidia.com/T4"}]}}
    server.items[KUBEVIRTS] = [facts.kubevirt({**facts.KEEPS_MDEVS, **permitted})]
    server.items[VMS] = [facts.vm(evictionStrategy="LiveMigrate")]
    server.items["/apis/resource.k8s.io/v1/resourceslices"].append(
        facts.slice_of({"model": "A100"}, driver="mute.example.com", name="mute")
    )
    server.items["/apis/resource.k8s.io/v1/deviceclasses"].append(facts.device_class("mute.example.com"))
    server.forbidden = {"poddisruptionbudgets"}


def test_a_prepared_cluster_is_well(doctor):
    code, out, err = doctor()
    assert (code, err) == (0, "")
    assert out.startswith("nothing is wrong\n\nwell: Kubernetes, DRA, ")


@pytest.mark.parametrize(("output", "golden"), [("text", "broken.txt"), ("json", "broken.json")])
def test_a_broken_cluster_reads_as_in_the_golden(doctor, server, output, golden):
    broken(server)
    code, out, err = doctor("-o", output)
    assert (code, err) == (1, "")
    assert out == (HERE / "goldens" / golden).read_text()


def test_it_only_reads_and_tries(doctor, server):
    doctor()
    methods = {method for method, _ in server.asked}
    assert methods == {"GET", "POST"}
    tried = {path.rpartition("/")[2] for method, path in server.asked if method == "POST"}
    assert tried == {"pods", "virtualmachines", "subjectaccessreviews"}


def test_lists_are_read_to_their_end(doctor, server):
    server.items[VMS] = [facts.vm(f"vm{number}", evictionStrategy="LiveMigrate") for number in range(5)]
    _, out, _ = doctor("-o", "json")
    assert sum(each["code"] == "blocks_drain" for each in json.loads(out)["findings"]) == 5


def test_one_namespace_is_all_that_is_asked_about_vms(doctor, server):
    doctor("-n", "team-a")
    paths = [path for _, path in server.asked if "virtualmachine" in path and "instancetype.kubevirt.io" not in path]
    assert paths
    assert all("/namespaces/team-a/" in path for path in paths)


def test_a_user_of_one_namespace_is_told_what_he_does_not_see(doctor, server):
    server.forbidden = {"/apis/admissionregistration", "/dravirt-system/", "kubevirts", "resource.k8s.io/v1/"}
    code, out, _ = doctor("-n", "team-a", "-o", "json")
    assert code == 0
    assert found(out) == {"unseen"}
    assert json.loads(out)["well"] == ["Kubernetes", "DRA", "webhook answers"]


def test_each_thing_alone_may_be_unseen(doctor, server):
    doctor()
    paths = {path for method, path in server.asked if method == "GET"} - {"/version"}
    for path in sorted(paths):
        server.forbidden = {path}
        code, out, err = doctor("-o", "json")
        assert (code, err) == (0, ""), (path, out)
        # (without the Secret a handshake is tried, and nobody listens where the facts say)
        assert found(out) == {"unseen"}, path


def test_where_nothing_may_be_created_nothing_is_concluded(doctor, server):
    server.forbidden = {"/pods", "namespaces/default/virtualmachines", "subjectaccessreviews"}
    code, out, _ = doctor("-o", "json")
    assert code == 0
    assert {(each["code"], each["object"]) for each in json.loads(out)["findings"]} == {
        ("unseen", "a dry run of a pod with a claim"),
        ("unseen", "a dry run of a VM that asks wrongly"),
        ("unseen", "the rights of dravirt's service account"),
    }


def test_what_others_say_of_a_vm_does_not_show_that_the_webhook_answers(doctor, server):
    server.denial = 'admission webhook "quota.example" denied the request: no VMs here'
    code, out, _ = doctor("-o", "json")
    said = json.loads(out)
    assert code == 0
    assert [(each["code"], each["what"]) for each in said["findings"]] == [("unseen", server.denial)]
    assert "webhook answers" not in said["well"]


def test_a_pod_tries_objects_in_its_own_namespace_and_looks_at_all(doctor, server, monkeypatch):
    monkeypatch.setenv("POD_NAMESPACE", "dravirt-doctor")
    doctor()
    tried = {path for method, path in server.asked if method == "POST" and "namespaces" in path}
    assert tried == {
        "/api/v1/namespaces/dravirt-doctor/pods",
        "/apis/kubevirt.io/v1/namespaces/dravirt-doctor/virtualmachines",
    }
    assert ("GET", VMS) in server.asked


def test_dravirts_own_namespace_is_no_place_to_try_in(doctor):
    _, out, _ = doctor("-n", facts.NAMESPACE, "-o", "json")
    told = {each["object"]: each["what"] for each in json.loads(out)["findings"]}
    assert "left out by dravirt's webhooks" in told["a dry run of a VM that asks wrongly"]


def test_an_installation_with_other_names_is_found_by_its_webhooks(doctor, server):
    (configuration,) = server.items[MUTATING]
    configuration["metadata"]["name"] = "acme-dravirt"
    for each in configuration["webhooks"]:
        each["clientConfig"]["service"] = {"name": "acme-dravirt-webhook", "namespace": "acme"}
    doctor("-o", "json")
    assert ("GET", "/apis/apps/v1/namespaces/acme/deployments/acme-dravirt-webhook") in server.asked


def test_the_namespace_may_be_named(doctor, server):
    doctor("--dravirt-namespace", "elsewhere")
    assert ("GET", f"/apis/apps/v1/namespaces/elsewhere/deployments/{facts.SERVICE}") in server.asked


def test_without_a_deployment_the_rest_is_judged(doctor, server):
    del server.items[DEPLOYMENT]
    code, out, _ = doctor("-o", "json")
    assert (code, found(out)) == (0, {"unseen"})
    assert "webhook answers" in json.loads(out)["well"]


def test_without_dra_there_is_nothing_to_list(doctor, server):
    del server.items["/apis/resource.k8s.io"]
    code, out, _ = doctor("-o", "json")
    assert code == 1
    assert found(out) == {"dra_not_served", "no_driver"}


@pytest.mark.parametrize(("file", "codes"), [("dra-on.json", set()), ("dra-off.json", {"dra_off"})])
def test_the_recorded_answers_of_api_servers_are_told_apart(doctor, server, monkeypatch, file, codes):
    recorded = json.loads((HERE / "answers" / file).read_text())
    create = DoctorServer._create
    monkeypatch.setattr(
        DoctorServer,
        "_create",
        lambda self, path, body, *, dry: (
            (201, recorded) if path.endswith("/pods") else create(self, path, body, dry=dry)
        ),
    )
    _, out, _ = doctor("-o", "json")
    assert found(out) == codes


def test_fix_permits_the_placeholder_and_looks_again(doctor, server):
    broken(server)
    code, out, err = doctor("--fix")
    assert code == 0
    assert err.startswith("changed: KubeVirt kubevirt/kubevirt: permit_missing: [")
    assert "permit_missing" not in out
    (item,) = server.items[KUBEVIRTS]
    names = [each["resourceName"] for each in item["spec"]["configuration"]["permittedHostDevices"]["pciHostDevices"]]
    assert names == ["nvidia.com/T4", "dravirt.io/gpu"]


def test_fix_changes_nothing_that_somebody_else_changed_meanwhile(doctor, server, monkeypatch):
    broken(server)
    patch = DoctorServer._patch

    def late(self, path, body):
        (item,) = self.items[KUBEVIRTS]
        item["metadata"]["resourceVersion"] = "44"
        return patch(self, path, body)

    monkeypatch.setattr(DoctorServer, "_patch", late)
    code, out, err = doctor("--fix")
    assert (code, out) == (3, "")
    assert "(reason: conflict)" in err


def test_fix_says_where_there_is_nothing_to_do(doctor, server):
    code, _, err = doctor("--fix")
    assert (code, err) == (0, "nothing was found that is safe to change unasked\n")
    assert "PATCH" not in {method for method, _ in server.asked}


def test_before_uninstall_lists_the_vms_alone(doctor, server):
    broken(server)
    code, out, _ = doctor("--before-uninstall", "-o", "json")
    assert (code, found(out)) == (1, {"starts_without_device"})
    server.items[VMS] = [facts.vm(asks=None)]
    server.items["/apis/kubevirt.io/v1/virtualmachineinstances"] = []
    assert doctor("--before-uninstall")[:2] == (0, "nothing is wrong\n\nwell: VMs that ask\n")


def test_before_uninstall_is_no_go_ahead_where_vms_cannot_be_read(doctor, server):
    server.forbidden = {"virtualmachines"}
    code, out, _ = doctor("--before-uninstall", "-o", "json")
    assert (code, found(out)) == (1, {"unseen"})


@pytest.mark.parametrize("argv", [["--output", "xml"], ["--fix", "--before-uninstall"]])
def test_wrong_usage(doctor, argv):
    with pytest.raises(SystemExit) as ended:
        doctor(*argv)
    assert ended.value.code == 2


def test_an_unknown_user_is_no_finding(doctor, server, monkeypatch):
    monkeypatch.setattr(server, "answer", lambda *_: (401, {"message": "Unauthorized"}))
    code, out, err = doctor()
    assert (code, out) == (3, "")
    assert "does not know this user" in err


def test_a_kubeconfig_that_is_not_there_is_no_finding(capsys, tmp_path):
    assert main(["doctor", "--kubeconfig", str(tmp_path / "none")]) == 3
    assert "name a kubeconfig with --kubeconfig" in capsys.readouterr().err


def test_something_else_than_an_api_server_is_no_finding(doctor, server):
    del server.items["/version"]
    code, out, err = doctor()
    assert (code, out) == (3, "")
    assert "no Kubernetes API server" in err


class Silent(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def serving(tmp_path, server):
    """The webhook's server behind the Service, whose certificate no Secret tells of, and what its authority signed."""
    now = dt.datetime.now(dt.UTC)
    authority = new_authority(now, dt.timedelta(days=1))
    leaf = issue(authority, [facts.NAME], now, dt.timedelta(hours=1))
    chain, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    chain.write_bytes(write_certificates([leaf.certificate]))
    key.write_bytes(write_key(leaf.key))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    listening = ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    listening.daemon_threads = True
    listening.socket = context.wrap_socket(listening.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=lambda: listening.serve_forever(poll_interval=0.05), daemon=True)
    thread.start()
    server.forbidden = {"/secrets/"}
    server.items[ENDPOINTS] = [
        {
            "endpoints": [
                {"addresses": ["192.0.2.1"], "conditions": {"ready": False}},
                {"addresses": ["127.0.0.1"]},
            ],
            "ports": [{"port": listening.server_port}],
        }
    ]
    yield write_certificates([authority.certificate])
    listening.shutdown()
    listening.server_close()
    thread.join()


def test_without_the_secret_the_server_is_asked_as_an_api_server_would(doctor, server, serving):
    mutating, validating = facts.registrations(serving)
    server.items |= {MUTATING: [mutating], VALIDATING: [validating]}
    code, out, _ = doctor("-o", "json")
    assert (code, found(out)) == (0, set())


@pytest.mark.parametrize(
    ("bundle", "what"),
    [
        (write_certificates([facts.AUTHORITY.certificate]), "unable to get local issuer certificate"),
        (b"", "it holds no certificate"),
        (b"nonsense", "it holds no certificate"),
    ],
    ids=["another", "empty", "nonsense"],
)
def test_without_the_secret_a_wrong_ca_bundle_is_seen_as_well(doctor, server, serving, bundle, what):
    mutating, _ = facts.registrations(serving)
    _, validating = facts.registrations(bundle)
    server.items |= {MUTATING: [mutating], VALIDATING: [validating]}
    code, out, _ = doctor("-o", "json")
    (finding,) = json.loads(out)["findings"]
    assert (code, finding["code"], finding["what"]) == (1, "ca_bundle", f"its caBundle: {what}")
    assert finding["object"] == "ValidatingWebhookConfiguration dravirt, webhook injected-pod.dravirt.io"


def test_a_server_that_cannot_be_reached_is_not_judged(doctor, server):
    del server.items[SECRET]
    code, out, _ = doctor("-o", "json")
    assert (code, found(out)) == (0, {"unseen"})


def test_something_in_between_that_ends_the_connection_is_not_judged(doctor, server):
    del server.items[SECRET]
    with socket.create_server(("127.0.0.1", 0)) as proxy:

        def hang_up():
            proxy.accept()[0].close()

        thread = threading.Thread(target=hang_up, daemon=True)
        thread.start()
        server.items[ENDPOINTS][0]["ports"] = [{"port": proxy.getsockname()[1]}]
        code, out, _ = doctor("-o", "json")
        thread.join()
    assert (code, found(out)) == (0, {"unseen"})
