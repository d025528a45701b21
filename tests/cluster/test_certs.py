"""The webhook's own certificates against a real API server: it judges them, and it calls two replicas all the while."""

import base64
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

import httpx
import pytest
import yaml

from certs.certificates import fingerprint, service_names
from certs.cluster import Cluster, Place, connect
from certs.material import read_material
from certs.policy import Policy
from certs.selfmanaged import SelfManaged
from certs.store import Conflict, Reading
from cluster.api import Api
from cluster.controlplane import ADMIN, WEBHOOK, ControlPlane
from cluster.images import TREE
from cluster.load import Load
from cluster.network import HOST
from cluster.process import Process, Processes, until

pytestmark = pytest.mark.cluster

NAME = "dravirt-certs"
SECRET = "dravirt-webhook-tls"
REGISTRATION = "admissionregistration.k8s.io/v1"
KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
PORTS = (9543, 9544)
STEPS = ("--overlap=16s", "--propagation=8s", "--interval=1s")
LONG = ("--ca-lifetime=30m", "--cert-lifetime=10m", *STEPS)
"""Nothing ends by itself while a test runs, however slow the machine is: rotations are asked for."""
SHORT = ("--ca-lifetime=96s", "--cert-lifetime=48s", *STEPS)
"""A certificate is renewed after 32 seconds and an authority after 64.

A replica that is late has 16 seconds, and half of that where a new authority must be trusted first.
"""
PAGE = TREE / "docs" / "certificates.md"


@pytest.fixture
def registered(api: Api, namespace: str) -> Iterator[None]:
    """Webhooks for the pods of the test's namespace, without a caBundle."""
    service = {"namespace": namespace, "name": "dravirt-webhook"}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    items = []
    for kind, paths in zip(KINDS, (("/mutate/pod", "/mutate/pod"), ("/validate/pod",)), strict=True):
        hooks = [
            {
                "name": f"n{number}.certs.dravirt.io",
                "clientConfig": {"service": {**service, "path": path}},
                "namespaceSelector": selector,
                "rules": [rule],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "failurePolicy": "Fail",
                "timeoutSeconds": 5,
            }
            for number, path in enumerate(paths)
        ]
        items.append(
            api.create({"apiVersion": REGISTRATION, "kind": kind, "metadata": {"name": NAME}, "webhooks": hooks})
        )
    yield
    for item in items:
        api.delete(item)


def bundles(api: Api) -> list[bytes]:
    """Return the caBundle of each webhook."""
    found = (api.get(REGISTRATION, kind, NAME) for kind in KINDS)
    return [base64.b64decode(hook["clientConfig"].get("caBundle", "")) for each in found for hook in each["webhooks"]]


def wipe(api: Api) -> None:
    for kind in KINDS:
        item = api.get(REGISTRATION, kind, NAME)
        for hook in item["webhooks"]:
            hook["clientConfig"].pop("caBundle", None)
        api.request("PUT", api.path(REGISTRATION, kind, None, NAME), item)


def secret(api: Api, namespace: str) -> dict[str, bytes]:
    item = api.get("v1", "Secret", SECRET, namespace)
    return {name: base64.b64decode(value) for name, value in ((item or {}).get("data") or {}).items()}


def authority(api: Api, namespace: str) -> str:
    material, _ = read_material(secret(api, namespace))
    return fingerprint(material.authority.certificate) if material.authority else ""


def replica(plane: ControlPlane, namespace: str, policy: Policy | None = None) -> SelfManaged:
    store = Cluster(connect(plane.kubeconfig(ADMIN), in_cluster=False), Place(namespace, SECRET, NAME))
    return SelfManaged(store, service_names("dravirt-webhook", namespace), policy or Policy())


@pytest.mark.parametrize("_", range(20))
def test_tl03_three_replicas_that_start_at_once_have_one_authority(stack, api, namespace, registered, _):
    replicas = [replica(stack.control_plane, namespace) for _ in range(3)]
    barrier = threading.Barrier(len(replicas))

    def start(each: SelfManaged) -> bytes:
        barrier.wait()
        return each.read().chain

    with ThreadPoolExecutor(len(replicas)) as pool:
        chains = list(pool.map(start, replicas))
    there = secret(api, namespace)

    assert set(chains) == {there["tls.crt"]}
    assert there["ca.crt"].count(b"BEGIN CERTIFICATE") == 1
    assert set(bundles(api)) == {there["ca.crt"]}


def test_a_write_that_comes_too_late_changes_nothing(stack, api, namespace, registered):
    replica(stack.control_plane, namespace).read()
    store = Cluster(connect(stack.control_plane.kubeconfig(ADMIN), in_cluster=False), Place(namespace, SECRET, NAME))
    before, (configuration, _) = store.secret(), store.configurations()
    api.merge(api.get("v1", "Secret", SECRET, namespace), {"metadata": {"labels": {"by": "another"}}})
    api.merge(api.get(REGISTRATION, KINDS[0], NAME), {"metadata": {"labels": {"by": "another"}}})

    with pytest.raises(Conflict):
        store.write(before, {"tls.crt": b"mine"})
    with pytest.raises(Conflict):
        store.write(Reading(before.now, None), {"tls.crt": b"mine"})
    version = configuration["metadata"]["resourceVersion"]
    with pytest.raises(Conflict):
        store.patch(configuration, [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}])
    assert secret(api, namespace)["tls.crt"] != b"mine"


def test_what_others_put_into_the_secret_stays(stack, api, namespace, registered):
    item = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": namespace}}
    api.create({**item, "metadata": {**item["metadata"], "labels": {"team": "a"}}, "data": {"note": "bWluZQ=="}})
    replica(stack.control_plane, namespace).read()

    assert secret(api, namespace)["note"] == b"mine"
    assert api.get("v1", "Secret", SECRET, namespace)["metadata"]["labels"] == {"team": "a"}


def certs(plane: ControlPlane, namespace: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `dravirt certs` as an administrator."""
    command = [sys.executable, "-m", "cli", "certs", arguments[0], f"--kubeconfig={plane.kubeconfig(ADMIN)}"]
    command += [f"--namespace={namespace}", f"--webhooks={NAME}", *arguments[1:]]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=TREE)


def test_the_command_goes_the_whole_way(stack, api, namespace, registered, tmp_path):
    plane = stack.control_plane
    none = certs(plane, namespace, "status")
    assert none.returncode == 1
    assert "problem      the certificate: there is none" in none.stdout

    assert certs(plane, namespace, "init").returncode == 0
    good = certs(plane, namespace, "status", "-o", "json")
    report = json.loads(good.stdout)
    assert (good.returncode, report["problems"], report["selfManaged"]) == (0, [], True)
    assert [each["trusts"] for each in report["webhooks"]] == [True, True, True]
    assert report["certificate"]["names"][0] == f"dravirt-webhook.{namespace}.svc"

    first = authority(api, namespace)
    assert certs(plane, namespace, "rotate").returncode == 0
    assert authority(api, namespace) != first
    assert "signed by the new authority" in certs(plane, namespace, "status").stdout
    assert certs(plane, namespace, "rotate", "--at-once").returncode == 0
    assert secret(api, namespace)["ca.crt"].count(b"BEGIN CERTIFICATE") == 1
    assert certs(plane, namespace, "export").stdout.encode() == secret(api, namespace)["ca.crt"]
    assert certs(plane, namespace, "export", f"--dir={tmp_path}").returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ca.crt", "tls.crt", "tls.key"]

    wipe(api)
    wiped = certs(plane, namespace, "status")
    assert wiped.returncode == 1
    assert "mutating n0.certs.dravirt.io does not trust it" in wiped.stdout


@dataclass
class Replicas:
    """Two webhooks of an installation, as processes with no more rights than the documentation gives them."""

    api: Api
    plane: ControlPlane
    processes: Processes
    namespace: str
    lives: tuple[str, ...]
    running: dict[int, Process] = field(default_factory=dict)

    def start(self, port: int) -> None:
        command = [sys.executable, "-m", "cli", "webhook", f"--host={HOST}", f"--port={port}", "--health-port=0"]
        command += ["--tls-self-managed", f"--kubeconfig={self.plane.kubeconfig(WEBHOOK)}", *self.lives]
        command += [f"--namespace={self.namespace}", f"--webhooks={NAME}"]
        self.running[port] = self.processes.start(
            f"certs-{port}", command, environment={"PYTHONPATH": str(TREE), "PATH": "/usr/bin:/bin"}
        )
        self.running[port].wait_until(lambda: self.health(port).get("ready"), seconds=120, what="ready")
        self.api.apply(self._slice(port))

    def end(self, port: int) -> None:
        """End a replica as a pod is: out of its Service, SIGTERM, and half a minute to drain."""
        self.api.delete(self._slice(port))
        self.running.pop(port).stop(grace=30)

    def rotate(self, *options: str) -> None:
        """Ask for a rotation, which the replicas carry out."""
        asked = certs(self.plane, self.namespace, "rotate", *options, *self.lives)
        assert asked.returncode == 0, asked.stderr

    def is_settled(self) -> bool:
        """True where one authority is left, which has signed what is served and is all that is trusted."""
        trusted = secret(self.api, self.namespace).get("ca.crt", b"")
        return trusted.count(b"BEGIN CERTIFICATE") == 1 and set(bundles(self.api)) == {trusted}

    def health(self, port: int) -> dict:
        with suppress(httpx.HTTPError):
            return httpx.get(f"https://{HOST}:{port}/readyz", verify=False, trust_env=False).json()
        return {}

    def _slice(self, port: int) -> dict:
        name = f"dravirt-webhook-{port}"
        labels = {"kubernetes.io/service-name": "dravirt-webhook"}
        return {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": name, "namespace": self.namespace, "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [HOST], "conditions": {"ready": True}}],
            "ports": [{"name": "", "port": port, "protocol": "TCP"}],
        }


def grant(api: Api, namespace: str) -> None:
    """Apply the rights that the documentation shows, for this namespace and these webhook configurations."""
    shown = PAGE.read_text().split("```yaml\n")[1].split("```")[0].replace("dravirt-system", namespace)
    subject = {"kind": "User", "name": WEBHOOK, "apiGroup": "rbac.authorization.k8s.io"}
    for role in yaml.safe_load_all(shown.replace("[dravirt]", f"[{NAME}]")):
        api.apply(role)
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": role["kind"], "name": role["metadata"]["name"]}
        binding = {**role, "kind": f"{role['kind']}Binding", "roleRef": reference, "subjects": [subject]}
        api.apply({key: value for key, value in binding.items() if key != "rules"})


@pytest.fixture
def lives() -> tuple[str, ...]:
    """How long certificates live, as options of the webhook."""
    return LONG


@pytest.fixture
def replicas(stack, api, namespace, registered, lives) -> Iterator[Replicas]:
    """Two replicas in a Service of the test's namespace."""
    grant(api, namespace)
    ports = [{"port": 443, "targetPort": PORTS[0], "protocol": "TCP"}]
    metadata = {"name": "dravirt-webhook", "namespace": namespace}
    api.apply({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}})
    started = Replicas(api, stack.control_plane, stack.processes, namespace, lives)
    for port in PORTS:
        started.start(port)
    yield started
    for process in started.running.values():
        process.kill()


@pytest.fixture
def load(stack, namespace) -> Load:
    """Pods that are created (dry run) all the time, each of which takes three calls of the webhooks.

    The full rate is the subject of tests/install/test_rotation.py; here it would take the machine from other suites.
    """
    spec = {"containers": [{"name": "c", "image": "registry.example/c"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": namespace}, "spec": spec}
    return Load(((stack.control_plane.api(), pod) for _ in range(3)), rest=0.05)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("lives", [SHORT])
def test_tl10_rotations_under_load_lose_no_call(api, namespace, replicas, load, lives):
    with load:
        first = authority(api, namespace)
        until(lambda: authority(api, namespace) != first, seconds=180, what="another authority")
        until(replicas.is_settled, seconds=120, what="the old authority gone")
        until(lambda: load.count > 300, seconds=120, what="300 requests answered")
    assert load.failures == []


@pytest.mark.timeout(900)
def test_replicas_that_are_replaced_during_rotations_lose_no_call(api, namespace, replicas, load):
    seen = {authority(api, namespace)}
    with load:
        for _ in range(2):
            replicas.rotate()
            seen.add(authority(api, namespace))
            for port in PORTS:  # in the half minute that it takes
                replicas.end(port)
                replicas.start(port)
            until(replicas.is_settled, seconds=120, what="the old authority gone")
        replicas.rotate("--cert")
        replicas.end(PORTS[0])
        replicas.start(PORTS[0])
        until(lambda: load.count > 100, seconds=120, what="100 requests answered")
    assert load.failures == []
    assert len(seen) == 3


@pytest.mark.timeout(900)
def test_a_secret_that_is_deleted_or_emptied_under_load_costs_no_call(api, namespace, replicas, load):
    with load:
        first = authority(api, namespace)
        api.request("DELETE", api.path("v1", "Secret", namespace, SECRET))
        until(lambda: authority(api, namespace) not in {"", first}, seconds=40, what="another authority")
        until(replicas.is_settled, seconds=120, what="the old authority gone")
        second = authority(api, namespace)
        api.merge(api.get("v1", "Secret", SECRET, namespace), {"data": None})
        until(lambda: authority(api, namespace) not in {"", second}, seconds=40, what="a third")
        until(replicas.is_settled, seconds=120, what="the second authority gone")
    assert load.failures == []


def test_tl01_wiped_ca_bundles_are_back_without_a_restart(api, namespace, replicas):
    wipe(api)
    until(
        lambda: set(bundles(api)) == {secret(api, namespace)["ca.crt"]}, seconds=30, what="the bundle in each of them"
    )
