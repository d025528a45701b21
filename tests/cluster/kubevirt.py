"""KubeVirt's own control plane: its CRDs, webhooks and API services, virt-api and virt-controller.

There is no virt-operator and no virt-handler: objects that the operator would make are made here.
"""

import base64
import json
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cluster.api import Api, ApiError, Object, is_true
from cluster.controlplane import KUBEVIRT_API, KUBEVIRT_CONTROLLER, KUBEVIRT_ELSEWHERE, ControlPlane, elsewhere
from cluster.machines import vm
from cluster.network import HOST, VIRT_API, VIRT_CONTROLLER
from cluster.process import Process, Processes, until

NAMESPACE = "kubevirt"
LAUNCHER_IMAGE = "registry.example/virt-launcher:stand-in"
RESOURCES = ("devices.kubevirt.io/kvm", "devices.kubevirt.io/tun", "devices.kubevirt.io/vhost-net")
"""What virt-handler's device plugins would offer on a node."""
_SERVICE = "virt-api"
_IN_A_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""Where KubeVirt's parts read which namespace they are in: `kubevirt` where there is no such file."""
_INSTALLATION = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "KubeVirt",
    "metadata": {"name": "kubevirt", "namespace": NAMESPACE},
}


@dataclass(frozen=True, slots=True)
class KubeVirt:
    """A KubeVirt control plane that runs."""

    api: Api
    processes: Sequence[Process]

    def configure(self, configuration: Object) -> None:
        """Change KubeVirt's configuration and wait until all its parts go by it. Raises NotReady."""
        changed = self.api.merge(_INSTALLATION, {"spec": {"configuration": configuration}})
        for each in self.processes:
            # Source: pkg/virt-config/configuration.go, GetConfig: said when a part has taken the new configuration.
            each.wait_until_said(f"to resource version '{changed['metadata']['resourceVersion']}'", seconds=60)


def start(processes: Processes, programs: Mapping[str, Path], plane: ControlPlane) -> KubeVirt:
    """Install KubeVirt into a control plane and start it. Raises NotReady."""
    api = plane.api()
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    printed = subprocess.run([programs["objects"]], check=True, capture_output=True).stdout
    objects = json.loads(printed)["items"]
    _install_kinds(api, [each for each in objects if each["kind"] == "CustomResourceDefinition"])
    _install_configuration(api, plane, NAMESPACE)
    virt_api = _start_virt_api(processes, programs, plane, KUBEVIRT_API)
    publish_service(api, NAMESPACE, _SERVICE, VIRT_API)
    for each in objects:
        if each["kind"] != "CustomResourceDefinition":
            api.create(with_ca(each, plane.authority.pem))
    virt_controller = _start_virt_controller(processes, programs, plane, KUBEVIRT_CONTROLLER)
    until(lambda: _available(api), seconds=60, what="KubeVirt's subresources")
    until(lambda: _is_asked(api), seconds=60, what="the API server asking KubeVirt's webhooks")
    return KubeVirt(api, (virt_api, virt_controller))


def move(running: KubeVirt, processes: Processes, programs: Mapping[str, Path], plane: ControlPlane) -> KubeVirt:
    """Have KubeVirt in the other namespace from now on, where its parts are other users. Raises NotReady."""
    for each in running.processes:
        each.stop()
    api = running.api
    api.delete(_INSTALLATION)
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KUBEVIRT_ELSEWHERE}})
    _install_configuration(api, plane, KUBEVIRT_ELSEWHERE)
    _IN_A_POD.parent.mkdir(parents=True, exist_ok=True)
    _IN_A_POD.write_text(KUBEVIRT_ELSEWHERE)
    virt_api = _start_virt_api(processes, programs, plane, elsewhere(KUBEVIRT_API))
    virt_controller = _start_virt_controller(processes, programs, plane, elsewhere(KUBEVIRT_CONTROLLER))
    until(lambda: _available(api) and _is_asked(api), seconds=60, what="KubeVirt in the other namespace")
    return KubeVirt(api, (virt_api, virt_controller))


def publish_service(api: Api, namespace: str, name: str, port: int) -> None:
    """Make a Service whose one endpoint is a server on this machine."""
    metadata = {"name": name, "namespace": namespace}
    ports = [{"port": 443, "targetPort": port, "protocol": "TCP"}]
    api.apply({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}})
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {**metadata, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [HOST], "conditions": {"ready": True}}],
        "ports": [{"name": "", "port": port, "protocol": "TCP"}],
    }
    api.apply(endpoints)


def with_ca(item: Object, pem: str) -> Object:
    """Return a webhook configuration or API service that trusts the authority `pem`."""
    bundle = base64.b64encode(pem.encode()).decode()
    if item["kind"] == "APIService":
        return {**item, "spec": {**item["spec"], "caBundle": bundle}}
    if "webhooks" not in item:
        return item
    hooks = [{**each, "clientConfig": {**each["clientConfig"], "caBundle": bundle}} for each in item["webhooks"]]
    return {**item, "webhooks": hooks}


def prepare_node(api: Api, name: str) -> None:
    """Make a node one that KubeVirt schedules VMs to, as virt-handler would."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": name,
        "kubevirt.io/schedulable": "true",
        "machine-type.node.kubevirt.io/q35": "true",
    }
    # virt-controller takes a node out of service when its heartbeat is old: this one never is.
    annotations = {"kubevirt.io/heartbeat": "2100-01-01T00:00:00Z"}
    api.merge(node, {"metadata": {"labels": labels, "annotations": annotations}, "spec": {"taints": None}})
    offered = dict.fromkeys(RESOURCES, "1000")
    api.merge(node, {"status": {"capacity": offered, "allocatable": offered}}, subresource="status")


def _install_kinds(api: Api, definitions: list[Object]) -> None:
    for each in definitions:
        api.create(each)

    def established() -> bool:
        found = api.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
        return sum(is_true(each, "Established") for each in found) >= len(definitions)

    until(established, seconds=60, what="KubeVirt's kinds established")


def _install_configuration(api: Api, plane: ControlPlane, namespace: str) -> None:
    created = until(lambda: _create_installation(api, namespace), seconds=30, what="the kind KubeVirt served")
    status = {"phase": "Deployed", "defaultArchitecture": "amd64", "observedKubeVirtVersion": "v1.8.4"}
    api.merge(created, {"status": status}, subresource="status")
    ca = {"name": "kubevirt-ca", "namespace": namespace}
    api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": ca, "data": {"ca-bundle": plane.authority.pem}})


def _create_installation(api: Api, namespace: str) -> Object | None:
    with suppress(ApiError, KeyError):  # a kind that is established is found a little later
        return api.apply({**_INSTALLATION, "metadata": {"name": "kubevirt", "namespace": namespace}, "spec": {}})
    return None


def _start_virt_api(processes: Processes, programs: Mapping[str, Path], plane: ControlPlane, user: str) -> Process:
    names = (_SERVICE, f"{_SERVICE}.{NAMESPACE}", f"{_SERVICE}.{NAMESPACE}.svc", HOST)
    pair = plane.authority.issue("virt-api", *names)
    flags = [f"--kubeconfig={plane.kubeconfig(user)}", f"--listen={HOST}", f"--port={VIRT_API}"]
    flags += [f"--tls-cert-file={pair.certificate}", f"--tls-key-file={pair.key}"]
    flags += [f"--handler-cert-file={pair.certificate}", f"--handler-key-file={pair.key}"]
    process = processes.start("virt-api", [programs["virt-api"], *flags])
    process.wait_until_listening(HOST, VIRT_API, seconds=60)
    return process


def _start_virt_controller(
    processes: Processes, programs: Mapping[str, Path], plane: ControlPlane, user: str
) -> Process:
    pair = plane.authority.issue("virt-controller", HOST)
    flags = [f"--kubeconfig={plane.kubeconfig(user)}", f"--listen={HOST}", f"--port={VIRT_CONTROLLER}"]
    flags += [f"--prom-cert-file={pair.certificate}", f"--prom-key-file={pair.key}"]
    flags += [f"--launcher-image={LAUNCHER_IMAGE}"]
    process = processes.start("virt-controller", [programs["virt-controller"], *flags])
    process.wait_until_listening(HOST, VIRT_CONTROLLER, seconds=60)
    return process


def _available(api: Api) -> bool:
    service = api.get("apiregistration.k8s.io/v1", "APIService", "v1.subresources.kubevirt.io")
    return is_true(service, "Available")


def _is_asked(api: Api) -> bool:
    """True where KubeVirt's webhooks have a say: one fills in what a VM leaves open, another refuses a wrong one."""
    filled_in: Object = {}
    right, wrong = vm("default", "none", running=False), vm("default", "none", running=False)
    wrong["spec"]["running"] = False  # beside `runStrategy`
    try:
        filled_in = api.apply(right, dry_run=True)["spec"]["template"]["spec"]
        api.apply(wrong, dry_run=True)
    except ApiError as error:
        return 'virtualmachine-validator.kubevirt.io" denied' in error.message and "architecture" in filled_in
    return False
