"""The sidecar is lean: it runs beside every GPU VM, in a container limited to 64M."""

import json
import subprocess

import pytest
from support.claimed import entry
from support.sidecars import DOMAIN, launcher_pod

FORBIDDEN = {
    "fastapi",
    "google",  # protobuf: 2.4 MiB, see hooksidecar.wire
    "httpx",
    "kubernetes",
    "orjson",
    "msgspec",
    "pydantic",
    "starlette",
    "uvicorn",
    "yaml",
}
SERVE = """
import json, os, sys
from hooksidecar.main import serve
serve(os.environ)
print(json.dumps(sorted(sys.modules)))
"""
DISK = (
    '<disk type="file" device="disk"><driver name="qemu" type="raw" cache="none"/><source file="/var/run/disk{0}.img"/>'
    '<target dev="vd{0}" bus="virtio"/><alias name="ua-disk{0}"/></disk>'
)
DOMAIN_16K = DOMAIN.replace(b"</devices>", "".join(map(DISK.format, range(90))).encode() + b"</devices>")


@pytest.fixture
def pod():
    with launcher_pod("a100-mig-mdev") as pod:
        pod.allocate()
        yield pod


def test_memory_stays_below_45_mib_after_300_calls(pod):
    assert 16_000 <= len(DOMAIN_16K) <= 17_000
    environment = pod.environment(entry(request="vgpu"))
    lean = {name: value for name, value in environment.items() if not name.startswith("COVERAGE")}
    sidecar = pod.start(lean)
    hook = sidecar.hook()
    hook.info(timeout=5)
    for _ in range(300):
        hook.define(DOMAIN_16K)
    assert sidecar.status("VmRSS") <= 45 * 1024


def test_nothing_heavy_is_loaded_even_after_calls(pod):
    sidecar = pod.start(pod.environment(entry(request="vgpu")), code=SERVE, stdout=subprocess.PIPE)
    sidecar.hook().info(timeout=5)
    sidecar.hook().define()
    sidecar.hook().refusal(b"<domain")
    assert sidecar.end() == 0
    loaded = {module.partition(".")[0] for module in json.load(sidecar.process.stdout)}
    assert {"grpc", "lxml", "hooksidecar"} <= loaded
    assert not loaded & FORBIDDEN
