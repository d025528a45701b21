"""An installation on a cluster with KubeVirt and a node, shared by the tests of this folder in a fixed order.

`make test-install` runs them in a sandbox: elsewhere nothing here is collected.
"""

from collections.abc import Callable

import pytest
from cluster import machines, programs, sandbox
from cluster.conftest import api, drivers, namespace, node, pytest_runtest_makereport, stack  # noqa: F401 (fixtures)
from cluster.controlplane import ADMIN, KUBEVIRT_CONTROLLER
from cluster.images import SIDECAR_IMAGE, WEBHOOK_IMAGE
from cluster.load import Load
from cluster.stack import Stack

from install.installation import Installation
from install.inventory import inventory
from install.kubectl import Kubectl
from install.witness import Witness, start_witness

IMAGES = {"dravirt-webhook": WEBHOOK_IMAGE, "dravirt-hooksidecar": SIDECAR_IMAGE}
ORDER = (
    "test_installed",
    "test_story",
    "test_outage",
    "test_tenant",
    "test_rotation",
    "test_chaos",
    "test_rollout",
    "test_upgrade",
    "test_allocation",
    "test_removal",
    "test_readme",
    "test_overlays",
    "test_elsewhere",
    "test_listening",
)
"""One installation goes through all of it, from its start to its end."""

if sandbox.current() is None:
    collect_ignore_glob = ["test_*.py"]


def pytest_configure(config: pytest.Config) -> None:
    for layer in ("cluster", "node"):
        config.addinivalue_line("markers", f"{layer}: of a suite whose tests are told here again")
    config.addinivalue_line("markers", "install: needs dravirt installed on a cluster (make test-install)")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if sandbox.current() is not None:  # elsewhere `items` are those of all other folders
        items.sort(key=lambda item: ORDER.index(item.path.stem))


@pytest.fixture(scope="session")
def cluster(stack: Stack) -> Stack:  # noqa: F811 (a fixture's name)
    """KubeVirt, a node and its drivers: a cluster before dravirt is there."""
    _ = stack.kubevirt, stack.node, stack.drivers
    return stack


@pytest.fixture(scope="session")
def kubectl(cluster: Stack) -> Kubectl:
    """kubectl, as the cluster's administrator."""
    program = programs.build(programs.CONTROL_PLANE)["kubectl"]
    return Kubectl(program, cluster.control_plane.kubeconfig(ADMIN))


@pytest.fixture(scope="session")
def before(cluster: Stack) -> set[str]:
    """What the cluster holds before dravirt is there."""
    return inventory(cluster.api)


@pytest.fixture(scope="session")
def installation(cluster: Stack, kubectl: Kubectl, before: set[str]) -> Installation:
    """dravirt, installed with the images of the tree."""
    installed = Installation(cluster.api, kubectl, cluster.state / "mine", images=IMAGES)
    installed.apply()
    installed.wait_until_ready()
    return installed


@pytest.fixture(scope="session")
def dravirt(installation: Installation) -> Installation:
    """The same by the name that the cluster's suites know."""
    return installation


@pytest.fixture(scope="session")
def witness(cluster: Stack, installation: Installation) -> Witness:
    """A VM with a device that runs from the first day on: nothing that happens to dravirt may touch it."""
    return start_witness(cluster)


@pytest.fixture
def load(cluster: Stack, witness: Witness) -> Callable[[], Load]:
    """VMs, VMIs and launcher pods that ask for devices, at full rate."""
    plane = cluster.control_plane
    vm = machines.vm(witness.namespace, "load", asks="vgpu")
    vmi = machines.vmi(witness.namespace, "load", asks="vgpu")
    work = [(plane.api(), vm), (plane.api(), vmi), (plane.api(KUBEVIRT_CONTROLLER), witness.another_pod())]
    return lambda: Load(work)
