"""`dravirt doctor` on a prepared cluster and on broken ones: what is broken is named, and the command given mends it.

The server is a process of this machine, so its Deployment has no containers: pods are marked ready by a loop, and a
Deployment that is restarted starts the process again.
"""

import base64
import datetime as dt
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from certs.certificates import new_authority, write_certificates
from cluster import dravirt as servers
from cluster import drivers, machines, programs
from cluster.api import Api, Object
from cluster.controlplane import ADMIN
from cluster.dravirt import NAMESPACE, SERVICE, Dravirt
from cluster.images import TREE
from cluster.loops import Loop
from cluster.process import until
from cluster.stack import Stack

pytestmark = pytest.mark.cluster
REGISTRATION = "admissionregistration.k8s.io/v1"
MUTATING, VALIDATING = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"
PERMIT = {"pciVendorSelector": "0000:0000", "resourceName": "dravirt.io/gpu", "externalResourceProvider": True}
PREPARED = {
    "permittedHostDevices": {"pciHostDevices": [PERMIT]},
    "mediatedDevicesConfiguration": {"enabled": False},
    "developerConfiguration": None,
    "evictionStrategy": None,
}
SETTINGS = "sidecar:\n  image: registry.example/dravirt-hooksidecar:0.1.0 # one version with the webhook\n"
RBAC = "rbac.authorization.k8s.io/v1"


@dataclass
class Doctor:
    """The command, as a user of a kubeconfig, and what it gave last."""

    kubeconfig: Path
    kubectl: Path
    environment: dict[str, str]
    namespace: str
    findings: list[dict[str, str]] | None = None

    def __call__(self, *arguments: str, output: str = "json") -> subprocess.CompletedProcess[str]:
        """Run the command."""
        command = [sys.executable, "-m", "cli", "doctor", f"--kubeconfig={self.kubeconfig}", f"--output={output}"]
        done = subprocess.run(
            [*command, *arguments],
            cwd=TREE, capture_output=True, text=True, check=False, timeout=120, env=self.environment,
        )  # fmt: skip
        assert done.returncode in {0, 1}, done.stderr
        if output == "json":
            self.findings = json.loads(done.stdout)["findings"]
            assert done.returncode == any(each["severity"] == "error" for each in self.findings), done.stdout
        return done

    def codes(self, *arguments: str) -> set[str]:
        """Return the codes of what is found."""
        self(*arguments)
        return {each["code"] for each in self.findings}

    def finds(self, code: str, *arguments: str) -> dict[str, str]:
        """Return the first finding of a code, which must come: the API server sees a change some moments later."""

        def finding() -> dict[str, str] | None:
            self(*arguments)
            return next((each for each in self.findings if each["code"] == code), None)

        return until(finding, seconds=30, what=code, failed=lambda *, late: f"but {self.findings}" if late else None)

    def paste(self, remedy: str) -> None:
        """Run a command line in a shell that has kubectl, in a clone of the project."""
        paths = (self.kubectl.parent, Path(sys.executable).parent, os.environ["PATH"])
        shell = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "PATH": ":".join(map(str, paths))}
        done = subprocess.run(
            ["/bin/sh", "-c", remedy], cwd=TREE, capture_output=True, text=True, check=False, timeout=120, env=shell
        )
        assert done.returncode == 0, f"{remedy}\n{done.stdout}{done.stderr}"

    def mend(self, code: str) -> str:
        """Look, run the command that the finding gives as an administrator would, and look until it is gone."""
        remedy = self.finds(code)["remedy"]
        self.paste(remedy)
        until(lambda: code not in self.codes(), seconds=60, what=f"{code} mended by {remedy}")
        return remedy


@pytest.fixture(scope="module")
def kubectl(stack: Stack) -> Path:
    _ = stack.control_plane
    return programs.build(programs.CONTROL_PLANE)["kubectl"]


@pytest.fixture(scope="module")
def prepared(stack: Stack, dravirt: Dravirt, api: Api, kubectl: Path) -> Iterator[None]:
    """What an installation has beside the server: the objects of `deploy/`, and a cluster that is as it must be."""
    _ = stack.handmade_nodes
    stack.kubevirt.configure(PREPARED)
    kustomized = subprocess.run([kubectl, "kustomize", TREE / "deploy" / "base"], capture_output=True, check=True)
    kinds = {"Deployment", "ConfigMap", "PodDisruptionBudget", "ServiceAccount"}
    items = {each["kind"]: each for each in yaml.safe_load_all(kustomized.stdout) if each["kind"] in kinds}
    items["ConfigMap"]["data"] = {"config.yaml": SETTINGS, "service.yaml": "allocationService: {}\n"}
    for kind in ("ServiceAccount", "ConfigMap", "Deployment", "PodDisruptionBudget"):
        api.apply(items[kind])
    for path in ("base/rbac-allocations.yaml", "components/allocation-service/rbac.yaml"):
        for each in yaml.safe_load_all((TREE / "deploy" / path).read_text()):
            api.apply(each)
    files = dict(word.removeprefix("--tls-").split("=") for word in dravirt.command if word.startswith("--tls-"))
    data = {"tls.crt": Path(files["cert"]).read_bytes(), "ca.crt": stack.control_plane.authority.pem.encode()}
    api.apply(secret(data))
    with Loop(lambda: run_pods(api, dravirt)):
        until(lambda: is_ready(api), seconds=60, what="the Deployment ready")
        yield


def secret(data: dict[str, bytes]) -> Object:
    encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
    metadata = {"name": f"{SERVICE}-tls", "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded}


def run_pods(api: Api, dravirt: Dravirt) -> None:
    """Do what a kubelet does for the Deployment's pods, as far as it can be seen."""
    deployment = api.get("apps/v1", "Deployment", SERVICE, NAMESPACE)
    if "kubectl.kubernetes.io/restartedAt" in deployment["spec"]["template"]["metadata"].get("annotations", {}):
        dravirt.up()
    for each in api.list("v1", "Pod", NAMESPACE, "app.kubernetes.io/component=webhook"):
        ready = [{"type": "Ready", "status": "True"}]
        if not each["status"].get("conditions") or not any(
            condition["type"] == "Ready" and condition["status"] == "True" for condition in each["status"]["conditions"]
        ):
            pod = {"apiVersion": "v1", "kind": "Pod", **each}
            api.merge(pod, {"status": {"phase": "Running", "conditions": ready}}, subresource="status")


def is_ready(api: Api, replicas: int = 2) -> bool:
    status = api.get("apps/v1", "Deployment", SERVICE, NAMESPACE)["status"]
    return status.get("readyReplicas") == replicas


@pytest.fixture
def doctor(stack: Stack, prepared: None, kubectl: Path, namespace: str) -> Doctor:
    """The command as an administrator, who looks at all and tries in the test's namespace."""
    environment = {**os.environ, "POD_NAMESPACE": namespace}
    return Doctor(stack.control_plane.kubeconfig(ADMIN), kubectl, environment, namespace)


@pytest.fixture
def configured(stack: Stack, prepared: None) -> Iterator[Callable[[Object], None]]:
    """Change KubeVirt's configuration, for the length of the test."""
    yield stack.kubevirt.configure
    stack.kubevirt.configure(dict.fromkeys(("permittedHostDevices", "mediatedDevicesConfiguration")))
    stack.kubevirt.configure(PREPARED)


@pytest.fixture
def registered(stack: Stack, api: Api, prepared: None) -> Iterator[None]:
    """The webhook configurations, which are as before when the test ends."""
    yield
    servers.register(api, stack.control_plane.authority.pem)


@contextmanager
def without(api: Api, api_version: str, kind: str, name: str, namespace: str | None = None) -> Iterator[None]:
    """Delete an object, and make it again at the end where nobody has."""
    before = api.get(api_version, kind, name, namespace)
    api.delete(before)
    try:
        yield
    finally:
        if api.get(api_version, kind, name, namespace) is None:
            kept = {
                key: before["metadata"][key] for key in ("name", "namespace", "labels") if key in before["metadata"]
            }
            api.create({key: value for key, value in before.items() if key != "status"} | {"metadata": kept})


def hooks(api: Api, kind: str, change: Callable[[list[Object]], None]) -> None:
    """Change the webhooks of a configuration."""
    item = api.get(REGISTRATION, kind, "dravirt")
    change(item["webhooks"])
    api.request("PUT", api.path(REGISTRATION, kind, None, "dravirt"), item)


def test_a_prepared_cluster_has_no_error(doctor):
    done = doctor()
    assert done.returncode == 0
    # What is not seen from outside is told and is no error.
    assert {each["code"] for each in doctor.findings} == {"identity_unseen"}, done.stdout
    text = doctor(output="text")
    assert text.returncode == 0
    assert text.stdout.startswith("nothing is wrong\n")
    assert "well: Kubernetes, DRA, KubeVirt, placeholder permitted" in text.stdout


def test_the_look_changes_nothing(doctor, api):
    def settings() -> list[Any]:
        paths = ("/apis/kubevirt.io/v1/kubevirts", f"/api/v1/namespaces/{NAMESPACE}/configmaps")
        items = [each for path in paths for each in api.request("GET", path)["items"]]
        items += [api.get(REGISTRATION, kind, "dravirt") for kind in (MUTATING, VALIDATING)]
        return [[each.get(key) for key in ("spec", "data", "webhooks")] for each in items]

    before = settings()
    doctor()
    doctor("--before-uninstall", "-n", doctor.namespace)
    assert settings() == before
    assert api.list("kubevirt.io/v1", "VirtualMachine", doctor.namespace) == []
    assert api.list("v1", "Pod", doctor.namespace) == []


def test_a_placeholder_that_is_not_permitted(doctor, configured):
    configured({"permittedHostDevices": {"pciHostDevices": [{**PERMIT, "resourceName": "nvidia.com/T4"}]}})
    doctor.mend("permit_missing")


def test_fix_permits_the_placeholder_and_nothing_else(doctor, api, configured):
    configured({"permittedHostDevices": {"pciHostDevices": [{**PERMIT, "resourceName": "nvidia.com/T4"}]}})
    configured({"mediatedDevicesConfiguration": None})
    done = doctor("--fix")
    assert "changed: KubeVirt kubevirt/kubevirt: permit_missing" in done.stderr
    assert "permit_missing" not in done.stdout
    assert "mdev_deletion_possible" in done.stdout
    configuration = api.get("kubevirt.io/v1", "KubeVirt", "kubevirt", "kubevirt")["spec"]["configuration"]
    permitted = configuration["permittedHostDevices"]["pciHostDevices"]
    assert [each["resourceName"] for each in permitted] == ["nvidia.com/T4", "dravirt.io/gpu"]
    assert configuration.get("mediatedDevicesConfiguration") is None
    assert "nothing was found" in doctor("--fix").stderr


def test_a_placeholder_under_mediated_devices(doctor, configured):
    entry = {"mdevNameSelector": "none", "resourceName": "dravirt.io/gpu", "externalResourceProvider": True}
    configured({"permittedHostDevices": {"pciHostDevices": [PERMIT], "mediatedDevices": [entry]}})
    doctor.mend("permit_under_mediated")
    assert doctor.codes() == {"identity_unseen"}


def test_mediated_devices_that_virt_handler_would_delete(doctor, api, configured):
    configured({"mediatedDevicesConfiguration": None})
    assert doctor.finds("mdev_deletion_possible")["severity"] == "warning"
    attributes = {"mdevUUID": "b0a6f6ec-5f0f-4b8e-9c6e-0d3b6f0a7a11", "profile": "GRID A100-1-5C"}
    with published(api, "mdev.example.com", attributes):
        doctor.mend("mdev_deletion")
        configured({"mediatedDevicesConfiguration": {"enabled": None, "mediatedDeviceTypes": ["nvidia-222"]}})
        assert "GRID A100-1-5C" in doctor.mend("mdev_deletion")


@contextmanager
def published(api: Api, driver: str, *devices: dict[str, str], slices: int = 1) -> Iterator[Object]:
    """Publish devices of another driver, and a class of them."""
    items = [
        {"name": f"d{index}", "attributes": {key: {"string": value} for key, value in each.items()}}
        for index, each in enumerate(devices)
    ]
    pool = {"name": "doctor", "generation": 1, "resourceSliceCount": slices}
    spec = {"driver": driver, "nodeName": "paper-2", "pool": pool, "devices": items}
    item = {"apiVersion": drivers.VERSION, "kind": "ResourceSlice", "metadata": {"name": "doctor"}, "spec": spec}
    selecting = drivers.device_class("doctor", f'device.driver == "{driver}"')
    api.apply(item)
    api.apply(selecting)
    try:
        yield item
    finally:
        api.delete(item)
        api.delete(selecting)


def test_no_mutating_webhooks(doctor, api, registered):
    api.delete(api.get(REGISTRATION, MUTATING, "dravirt"))
    doctor.mend("webhooks_missing")
    doctor.mend("ca_bundle")
    assert doctor.codes() == {"identity_unseen"}


def test_one_webhook_is_gone(doctor, api, registered):
    hooks(api, MUTATING, lambda entries: entries.pop(1))
    assert "vmi.dravirt.io" in doctor.finds("webhook_missing")["what"]
    doctor.mend("webhook_missing")
    doctor.mend("ca_bundle")
    assert doctor.codes() == {"identity_unseen"}


def test_a_ca_bundle_that_does_not_lead_to_the_certificate(stack, doctor, api, registered):
    now = dt.datetime.now(dt.UTC)
    pem = write_certificates([new_authority(now, dt.timedelta(days=1)).certificate])
    other = base64.b64encode(pem).decode()
    hooks(api, MUTATING, lambda entries: entries[0]["clientConfig"].update(caBundle=other))
    hooks(api, VALIDATING, lambda entries: entries[0]["clientConfig"].pop("caBundle"))
    until(lambda: "x509" in doctor().stdout, seconds=30, what="the API server's refusal")
    assert {each["object"].rpartition(" ")[2] for each in doctor.findings if each["code"] == "ca_bundle"} == {
        "vm.dravirt.io",
        "injected-pod.dravirt.io",
    }
    for remedy in {each["remedy"] for each in doctor.findings if each["code"] == "ca_bundle"}:
        doctor.paste(remedy)
    until(lambda: doctor.codes() == {"identity_unseen"}, seconds=60, what="all well")


def test_failures_that_are_ignored(doctor, api, registered):
    hooks(api, VALIDATING, lambda entries: entries[0].update(failurePolicy="Ignore"))
    doctor.mend("failure_policy")


def test_webhooks_that_come_after_kubevirts(doctor, api, registered):
    item = api.get(REGISTRATION, MUTATING, "dravirt")
    api.delete(item)
    api.create({**item, "metadata": {"name": "zz-dravirt"}})
    doctor.mend("webhook_order")
    assert api.get(REGISTRATION, MUTATING, "zz-dravirt") is None


def test_a_webhook_that_is_down(doctor, dravirt):
    dravirt.down()
    try:
        finding = doctor.finds("webhook_unreachable")
        assert "connection refused" in finding["what"]
        doctor.mend("webhook_unreachable")
    finally:
        dravirt.up()


def test_a_webhook_that_is_never_asked(doctor, api, registered):
    hooks(api, MUTATING, lambda entries: entries[0].update(objectSelector={"matchLabels": {"never": "there"}}))
    doctor.mend("webhook_not_asked")


def test_a_deployment_scaled_to_none(doctor, api):
    deployment = api.get("apps/v1", "Deployment", SERVICE, NAMESPACE)
    api.merge(deployment, {"spec": {"replicas": 0}})
    until(lambda: is_ready(api, None), seconds=60, what="no replica")
    doctor.mend("not_ready")
    until(lambda: is_ready(api), seconds=60, what="two replicas")


def test_no_disruption_budget(doctor, api):
    with without(api, "policy/v1", "PodDisruptionBudget", SERVICE, NAMESPACE):
        doctor.mend("no_disruption_budget")


def test_a_sidecar_of_another_version(doctor, api):
    change_settings(api, SETTINGS.replace("0.1.0", "0.0.9"))
    doctor.mend("sidecar_version")
    change_settings(api, SETTINGS)


def test_kubevirt_in_another_namespace_than_configured(doctor, api):
    change_settings(api, f"kubevirtNamespace: openshift-cnv\n{SETTINGS}")
    doctor.mend("kubevirt_namespace")
    text = api.get("v1", "ConfigMap", "dravirt-config", NAMESPACE)["data"]["config.yaml"]
    assert text == f'kubevirtNamespace: "kubevirt"\n{SETTINGS}'
    change_settings(api, SETTINGS)


def change_settings(api: Api, text: str) -> None:
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dravirt-config", "namespace": NAMESPACE}}
    api.merge(item, {"data": {"config.yaml": text}})


def test_rights_that_were_removed(doctor, api):
    with without(api, RBAC, "ClusterRoleBinding", "dravirt-allocations"):
        finding = doctor.finds("rights_missing")
        assert "create tokenreviews" in finding["what"]
        doctor.mend("rights_missing")


def test_no_driver(doctor, api):
    before = api.list(drivers.VERSION, "ResourceSlice")
    for each in before:
        api.delete({"apiVersion": drivers.VERSION, "kind": "ResourceSlice", **each})
    try:
        # No command of kubectl brings a driver: the one shown installs NVIDIA's.
        assert doctor.finds("no_driver")["remedy"].startswith("helm upgrade --install dra-driver-nvidia-gpu")
    finally:
        drivers.publish(api, "paper-1")
    assert "no_driver" not in doctor.codes()


def test_a_driver_whose_devices_have_the_identity_under_another_name(doctor, api):
    with published(api, "odd.example.com", {"mediatedDevice": "b0a6f6ec-5f0f-4b8e-9c6e-0d3b6f0a7a11"}):
        doctor.mend("identity_elsewhere")
        text = api.get("v1", "ConfigMap", "dravirt-config", NAMESPACE)["data"]["config.yaml"]
        assert text.startswith(SETTINGS)
    change_settings(api, SETTINGS)


def test_a_driver_whose_devices_have_no_identity_at_all(doctor, api):
    with published(api, "mute.example.com", {"model": "A100"}):
        doctor()
        untold = [each for each in doctor.findings if each["object"] == "driver mute.example.com"]
        assert [each["code"] for each in untold] == ["identity_unseen"]


def test_no_class_selects_the_devices(doctor, api):
    with published(api, "new.example.com", {"pciBusID": "0000:65:00.0"}):
        api.delete(drivers.device_class("doctor", ""))
        doctor.mend("no_device_class")
        api.delete(drivers.device_class("new.example.com", ""))


def test_a_pool_that_stays_incomplete(doctor, api):
    with published(api, "slow.example.com", {"pciBusID": "0000:65:00.0"}, slices=2):
        doctor.mend("pool_incomplete")


def test_a_vm_that_blocks_a_drain(doctor, api):
    vm = machines.vm(doctor.namespace, asks="a100", running=False)
    vm["spec"]["template"]["spec"]["evictionStrategy"] = "LiveMigrate"
    api.apply(vm)
    assert doctor.finds("blocks_drain")["object"] == f"VirtualMachine {doctor.namespace}/vm1"
    doctor.mend("blocks_drain")


def test_a_vm_that_blocks_a_drain_by_the_clusters_default(doctor, api, configured):
    configured({"evictionStrategy": "LiveMigrate"})
    api.apply(machines.vm(doctor.namespace, asks="a100", running=False))
    assert "the cluster's evictionStrategy" in doctor.finds("blocks_drain")["what"]
    doctor.mend("blocks_drain")


def test_a_gate_that_changes_what_kubevirt_does(doctor, configured):
    # (virt-controller ends by itself when one of DRA is switched, for its Deployment to start it again)
    configured({"developerConfiguration": {"featureGates": ["Sidecar", "ReservedOverheadMemlock"]}})
    done = doctor()
    assert done.returncode == 0
    told = [each["what"] for each in doctor.findings if each["code"] == "feature_gate"]
    assert [each.partition(" ")[0] for each in told] == ["ReservedOverheadMemlock", "Sidecar"]


def test_before_uninstall(doctor, api):
    assert doctor.codes("--before-uninstall", "-n", doctor.namespace) == set()
    domain = {"devices": {"gpus": [{"name": "gpu0", "deviceName": "dravirt.io/gpu"}]}}
    api.apply(machines.vm(doctor.namespace, "asks", asks="a100", running=False))
    api.apply(machines.vm(doctor.namespace, "waits", asks="a100", running=False, domain=domain))
    api.apply(machines.vm(doctor.namespace, "plain", running=False))
    assert doctor("--before-uninstall").returncode == 1
    named = {each["code"]: each["object"].rpartition("/")[2] for each in doctor.findings}
    assert named == {"starts_without_device": "asks", "never_starts": "waits"}
    for each in doctor.findings:
        doctor.paste(each["remedy"])
    assert doctor("--before-uninstall").returncode == 0


def account(stack: Stack, namespace: str, name: str, folder: Path) -> Path:
    """Return the kubeconfig of a service account."""
    api = stack.api
    until(lambda: api.get("v1", "ServiceAccount", name, namespace), seconds=30, what=f"service account {name}")
    path = api.path("v1", "ServiceAccount", namespace, name) + "/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = api.request("POST", path, asked)["status"]["token"]
    config: dict[str, Any] = json.loads(stack.control_plane.kubeconfig(ADMIN).read_text())
    config["users"][0]["user"] = {"token": token}
    written = folder / f"{name}.kubeconfig"
    written.write_text(json.dumps(config))
    return written


def test_a_user_with_the_rights_of_one_namespace(stack, doctor, api, tmp_path):
    namespace = doctor.namespace
    rule = {"apiGroups": ["kubevirt.io"], "verbs": ["get", "list", "create"]}
    rules = [
        {**rule, "resources": ["virtualmachines", "virtualmachineinstances"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]},
    ]
    metadata = {"name": "owner", "namespace": namespace}
    api.apply({"apiVersion": RBAC, "kind": "Role", "metadata": metadata, "rules": rules})
    subjects = [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "owner"}
    api.apply(
        {"apiVersion": RBAC, "kind": "RoleBinding", "metadata": metadata, "roleRef": reference, "subjects": subjects}
    )
    blocking = machines.vm(namespace, asks="a100", running=False)
    blocking["spec"]["template"]["spec"]["evictionStrategy"] = "LiveMigrate"
    api.apply(blocking)
    doctor.kubeconfig = account(stack, namespace, "default", tmp_path)

    done = doctor("-n", namespace)
    assert done.returncode == 0
    assert {each["code"] for each in doctor.findings} == {"blocks_drain", "unseen"}
    unseen = {each["object"] for each in doctor.findings if each["code"] == "unseen"}
    assert {"the KubeVirt object", "the webhook configurations", "ResourceSlices"} <= unseen
    assert {"VirtualMachines", "a dry run of a pod with a claim", "a dry run of a VM that asks wrongly"}.isdisjoint(
        unseen
    )
    assert json.loads(done.stdout)["well"] == ["Kubernetes", "DRA", "webhook answers"]
    text = doctor("-n", namespace, output="text").stdout
    assert "things not seen" in text
    assert 'cannot list resource "kubevirts"' in text


def test_the_rights_of_the_job_see_all(stack, doctor, api, kubectl, tmp_path):
    kubeconfig = stack.control_plane.kubeconfig(ADMIN)
    apply = [kubectl, f"--kubeconfig={kubeconfig}", "apply", "-k", TREE / "deploy" / "doctor"]
    subprocess.run(apply, check=True, capture_output=True)
    try:
        doctor.kubeconfig = account(stack, "dravirt-doctor", "dravirt-doctor", tmp_path)
        doctor.environment["POD_NAMESPACE"] = "dravirt-doctor"
        assert doctor.codes() == {"identity_unseen"}
        # It reads no Secret: the caBundles are judged by handshakes.
        hooks(api, VALIDATING, lambda entries: entries[0]["clientConfig"].pop("caBundle"))
        assert doctor.finds("ca_bundle")["object"].endswith("injected-pod.dravirt.io")
        servers.register(api, stack.control_plane.authority.pem)
        pod = api.list("v1", "Pod", "dravirt-doctor")
        assert [each["spec"]["containers"][0]["args"] for each in pod] == [["doctor"]]
    finally:
        subprocess.run([*apply[:2], "delete", "--wait=false", *apply[3:]], check=True, capture_output=True)


def test_it_says_when_the_api_server_does_not_answer(doctor, tmp_path):
    config = json.loads(doctor.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    doctor.kubeconfig = tmp_path / "away"
    doctor.kubeconfig.write_text(json.dumps(config))
    command = [sys.executable, "-m", "cli", "doctor", f"--kubeconfig={doctor.kubeconfig}"]
    done = subprocess.run(command, cwd=TREE, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (3, "")
    assert "(reason: api_unavailable)" in done.stderr
