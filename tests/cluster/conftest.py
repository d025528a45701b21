"""The cluster as fixtures. Suites run in a sandbox only: elsewhere nothing here is collected.

`make test-cluster` runs those marked `cluster` (no node), `make test-node` those marked `node`.
"""

import itertools
from collections.abc import Callable, Iterator

import pytest

from cluster import kubevirt, sandbox
from cluster.api import Api
from cluster.dravirt import Dravirt
from cluster.drivers import Drivers
from cluster.node import Node
from cluster.stack import Stack, open_stack
from cluster.watching import clear

if sandbox.current() is None:
    collect_ignore_glob = ["test_*.py"]

_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cluster: needs a control plane with KubeVirt (make test-cluster)")
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
    yield name
    clear(api, name)


@pytest.fixture
def gates(api: Api) -> Iterator[Callable[..., None]]:
    """Switch KubeVirt's feature gates on, for the length of the test."""

    def _gates(*names: str) -> None:
        kubevirt.configure(api, {"developerConfiguration": {"featureGates": list(names)}})

    yield _gates
    _gates()
