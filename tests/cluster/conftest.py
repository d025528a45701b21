"""The cluster as fixtures. Suites run in a sandbox only: elsewhere nothing here is collected.

`make test-cluster` runs those marked `cluster` (no node), `make test-node` those marked `node`.
"""

import itertools
from collections.abc import Callable, Iterator

import pytest

from cluster import handler, sandbox, watching
from cluster.api import Api, Object
from cluster.dravirt import Dravirt
from cluster.drivers import Drivers
from cluster.node import Node
from cluster.process import until
from cluster.stack import Stack, open_stack

if sandbox.current() is None:
    collect_ignore_glob = ["test_*.py"]

_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "arm64: needs dravirt's images for arm64 (make test-arm64)")
    config.addinivalue_line("markers", "cluster: needs a control plane with KubeVirt (make test-cluster)")
    config.addinivalue_line("markers", "dra_off: needs an API server whose DRA is off (make test-dra-off)")
    config.addinivalue_line("markers", "node: needs a node that runs pods as well (make test-node)")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Show the end of each program's log beside a failure."""
    report = yield
    running = sandbox.current()
    if report.failed and running:
        for log in sorted(running.logs.glob("*.log")):
            lines = log.read_text(errors="replace").splitlines()[-15:]
            report.sections.append((f"the end of {log.name}", "\n".join(line[:300] for line in lines)))
    return report


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """The cluster of this run: its layers start on first use."""
    running = sandbox.current()
    assert running, "runs in a sandbox only: make test-cluster, make test-node"
    with open_stack(running) as opened:
        yield opened


@pytest.fixture(scope="session")
def api(stack: Stack) -> Api:
    """The API server, as its administrator."""
    return stack.api


@pytest.fixture(scope="session")
def node(stack: Stack) -> Node:
    """The node that runs pods."""
    return stack.node


@pytest.fixture(scope="session")
def dravirt(stack: Stack) -> Dravirt:
    """KubeVirt with dravirt's webhook."""
    _ = stack.kubevirt
    return stack.dravirt


@pytest.fixture(scope="session")
def drivers(stack: Stack) -> Drivers:
    """The node's stand-in DRA drivers."""
    return stack.drivers


@pytest.fixture
def namespace(api: Api) -> Iterator[str]:
    """A namespace of the test's own. Its VMs end with the test, so that their devices are free for the next."""
    name = f"t{next(_numbers)}"
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    # Without it no pod can be created.
    until(lambda: api.get("v1", "ServiceAccount", "default", name), seconds=60, what=f"the service account of {name}")
    yield name
    watching.clear(api, name)


@pytest.fixture
def gates(stack: Stack) -> Iterator[Callable[..., None]]:
    """Switch KubeVirt's feature gates on, for the length of the test."""

    def _gates(*names: str) -> None:
        stack.kubevirt.configure({"developerConfiguration": {"featureGates": list(names)}})

    yield _gates
    _gates()


@pytest.fixture
def boot_on_paper(stack: Stack, api: Api, namespace: str) -> Callable[[Object], tuple[Object, Object]]:
    """Apply a VM and move its VMI to Running, as a kubelet and virt-handler would; return the VM and its pod."""

    def _boot(vm: Object) -> tuple[Object, Object]:
        name = vm["metadata"]["name"]
        applied = api.apply(vm)
        pod = watching.bound(api, watching.launcher(api, namespace, name))
        watching.start_on_paper(api, pod)
        watching.in_phase(api, namespace, "Scheduled", name)
        handler.set_phase(stack.handler, watching.vmi_of(api, namespace, name), "Running")
        watching.in_phase(api, namespace, "Running", name)
        return applied, pod

    return _boot
