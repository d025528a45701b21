"""The server where the network has one address family only: it listens."""

import subprocess
import sys

import pytest
from cluster.images import TREE
from cluster.process import Process

pytestmark = pytest.mark.install

PORT = 8443
PROBE = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())"


@pytest.fixture
def serve(tmp_path):
    """Start the server in a network of its own that has been changed; return what asks it there."""
    running = []

    def _serve(change: str, host: str):
        server = f"exec {sys.executable} -m cli webhook --plain-http --port={PORT} --drain-seconds=0"
        command = ["unshare", "--net", "sh", "-euc", f"ip link set lo up; {change}; {server}"]
        environment = {"PYTHONPATH": str(TREE), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        process = Process("listening", command, tmp_path / "log", environment)
        running.append(process)

        def answer() -> str:
            inside = ["nsenter", f"--target={process.pid}", "--net", sys.executable, "-c", PROBE]
            asked = subprocess.run(
                [*inside, f"http://{host}:{PORT}/healthz"], capture_output=True, text=True, check=False
            )
            return asked.stdout

        return process.wait_until(answer, seconds=90, what=f"answering at {host}")

    yield _serve
    for each in running:
        each.stop()


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_it_listens_on_both_families(serve, host):
    assert serve(":", host)


def test_it_listens_where_there_is_no_ipv4_address(serve):
    assert serve("ip -4 address flush dev lo", "[::1]")


def test_it_listens_where_ipv6_is_switched_off(serve):
    assert serve("echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6", "127.0.0.1")
