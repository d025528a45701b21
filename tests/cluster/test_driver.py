"""The stand-in driver, asked as the kubelet asks: what it writes is what dravirt's sidecar reads."""

import json
import os
import sys
import tempfile
from pathlib import Path

import grpc
import pytest

from cluster import machines, watching
from cluster.driver.messages import dra, dra_services, registration, registration_services
from cluster.driver.metadata import FOLDER
from cluster.driver.settings import write_settings
from cluster.drivers import device_class
from dra.metadata import decode_metadata

pytestmark = pytest.mark.cluster
DRIVER = "small.example.com"
UUID = "b0a6f6ec-5f0f-4b8e-9c6e-0d3b6f0a7a11"
SETTINGS = {
    "driver": DRIVER,
    "slices": [{"pool": "p", "devices": [{"name": "vgpu-0", "attributes": {"type": {"string": "A100-1-5C"}}}]}],
    "devices": {
        "vgpu-0": {"attributes": {"mdevUUID": {"string": UUID}}, "environment": {"X": "1"}, "status": {"a": 1}}
    },
}


class Kubelet:
    """The kubelet's side of the two sockets, and the folders that it shares with a driver."""

    def __init__(self, folder: Path) -> None:
        self.root, self.cdi, self.settings = folder / "kubelet", folder / "cdi", folder / "settings.json"
        (self.root / "plugins_registry").mkdir(parents=True)
        self.cdi.mkdir()

    def info(self):
        with grpc.insecure_channel(f"unix://{self.root}/plugins_registry/{DRIVER}-reg.sock") as channel:
            return registration_services.RegistrationStub(channel).GetInfo(
                registration.InfoRequest(), wait_for_ready=True, timeout=120
            )

    def call(self, method, claim):
        metadata = claim["metadata"]
        reference = {key: metadata[key] for key in ("namespace", "uid", "name")}
        with grpc.insecure_channel(f"unix://{self.info().endpoint}") as channel:
            stub = dra_services.DRAPluginStub(channel)
            message = getattr(dra, f"{method}Request")(claims=[reference])
            return getattr(stub, method)(message, timeout=20).claims[metadata["uid"]]


@pytest.fixture
def kubelet(stack):
    """A driver that runs, and nothing but the test to ask it."""
    nodes = stack.handmade_nodes
    asker = Kubelet(Path(tempfile.mkdtemp(dir=stack.state)))  # short: a socket's path holds 107 characters
    write_settings(asker.settings, SETTINGS)
    command = [sys.executable, "-m", "cluster.driver", str(asker.settings), f"--node={nodes[1]}"]
    command += [f"--kubeconfig={stack.control_plane.kubeconfig()}", f"--kubelet={asker.root}", f"--cdi={asker.cdi}"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    process = stack.processes.start(DRIVER, command, environment=environment)
    yield asker
    process.stop()


@pytest.fixture
def claim(api, kubelet, namespace):
    """A claim that the real scheduler has allocated from the driver's slice."""
    kubelet.info()
    api.apply(device_class("small", f'device.driver == "{DRIVER}"'))
    api.apply(machines.claim(namespace, "mine", machines.request("small")))
    container = {"name": "c", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]}
    metadata = {"name": "user", "namespace": namespace}
    api.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    (found,) = watching.allocated(api, namespace)
    return found


def test_it_registers_as_a_dra_plugin(kubelet):
    info = kubelet.info()
    assert (info.type, info.name, list(info.supported_versions)) == ("DRAPlugin", DRIVER, ["v1.DRAPlugin"])


def test_a_prepared_device_has_a_cdi_device_and_metadata_in_both_versions(kubelet, claim):
    answer = kubelet.call("NodePrepareResources", claim)

    (device,) = answer.devices
    assert (list(device.request_names), device.pool_name, device.device_name) == (["gpu"], "p", "vgpu-0")
    spec = json.loads(next(kubelet.cdi.iterdir()).read_text())
    (cdi,) = spec["devices"]
    assert list(device.cdi_device_ids) == [f"{spec['kind']}={cdi['name']}"]
    assert "X=1" in cdi["containerEdits"]["env"]
    (mount,) = cdi["containerEdits"]["mounts"]
    assert mount["containerPath"] == f"{FOLDER}/resourceclaims/mine/gpu/{DRIVER}-metadata.json"
    data = Path(mount["hostPath"]).read_bytes()
    (read,) = decode_metadata(data, path=mount["hostPath"])
    assert read.attributes == {"type": {"string": "A100-1-5C"}, "mdevUUID": {"string": UUID}}
    assert data.count(b"metadata.resource.k8s.io/v1beta1") == data.count(b"metadata.resource.k8s.io/v1alpha1") == 1


def test_preparing_again_changes_nothing_and_unpreparing_leaves_nothing(kubelet, claim):
    first, second = (kubelet.call("NodePrepareResources", claim) for _ in range(2))
    assert first == second

    kubelet.call("NodeUnprepareResources", claim)
    kubelet.call("NodeUnprepareResources", claim)

    assert not list(kubelet.cdi.iterdir())
    assert not [path for path in kubelet.settings.parent.rglob("*.json") if path != kubelet.settings]


def test_status_devices_are_written_where_told(api, kubelet, claim, namespace):
    kubelet.call("NodePrepareResources", claim)

    found = api.get(machines.CLAIMS, "ResourceClaim", "mine", namespace)
    (entry,) = found["status"]["devices"]
    assert (entry["driver"], entry["pool"], entry["device"], entry["data"]) == (DRIVER, "p", "vgpu-0", {"a": 1})


def test_a_claim_of_another_uid_is_refused(kubelet, claim):
    claim["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"

    assert "is not there with uid" in kubelet.call("NodePrepareResources", claim).error
