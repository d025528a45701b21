"""The images for arm64, by emulation: all that is in them is of that architecture, and does its work."""

import json
import os
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support import webhookserver
from support.claimed import entry
from support.domains import host_devices
from support.nodetree import A100_MDEV
from support.reviews import VM, review
from support.sidecars import launcher_pod
from support.webhookserver import WebhookServer

from cli.throwaway import issue
from cluster import machines, sandbox
from cluster.test_images import ABOVE_BASE, PACKAGES
from dra.version import __version__

pytestmark = pytest.mark.arm64
AARCH64 = 183
"""The machine of an ELF file, in its bytes 18 and 19. Source: Linux, include/uapi/linux/elf-em.h."""
USER = 107
SECONDS = 200
"""What an emulated server may take until it serves, on a busy machine."""


@dataclass(frozen=True)
class Unpacked:
    """An image, unpacked where its programs can be run."""

    root: Path
    """Devices, processes and temporary files are this machine's, by the same paths."""
    config: dict[str, Any]
    machines: dict[str, int]
    """The machine of each ELF file."""

    def enter(self, *command: str) -> list[str]:
        """Return what runs a command in the image, as the image's user."""
        return ["chroot", f"--userspec={self.config['config']['User']}", str(self.root), *command]

    def command(self, *arguments: str) -> list[str]:
        """Return what runs the image's own command."""
        return self.enter(*self.config["config"]["Entrypoint"], *arguments)

    def code(self, *arguments: str) -> str:
        """Return Python code whose process becomes that command, with its own arguments after these."""
        return f"import os, sys; os.execvp('chroot', {self.command(*arguments)} + sys.argv[1:])"

    def modules(self) -> list[str]:
        """Return the names of the extension modules."""
        paths = [Path(name).relative_to(PACKAGES) for name in self.machines if name.startswith(f"{PACKAGES}/")]
        return [".".join([*path.parent.parts, path.name.partition(".")[0]]) for path in paths]


@cache
def unpacked(target: str) -> Unpacked:
    root, found = sandbox.STATE / target, {}
    with tarfile.open(sandbox.current().images / f"{target}.tar") as image:
        [manifest] = json.load(image.extractfile("manifest.json"))
        config = json.load(image.extractfile(manifest["Config"]))
        for name in manifest["Layers"]:
            with tarfile.open(fileobj=image.extractfile(name)) as layer:
                for each in filter(tarfile.TarInfo.isreg, layer):
                    start = layer.extractfile(each).read(20)
                    if start.startswith(b"\x7fELF"):
                        found[each.name] = int.from_bytes(start[18:], "little")
                layer.extractall(root, filter="fully_trusted")
    for folder in ("/dev", "/proc", tempfile.gettempdir()):
        inside = root / folder.lstrip("/")
        inside.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "--rbind", folder, inside], check=True)
    return Unpacked(root, config, found)


@pytest.fixture(params=sorted(ABOVE_BASE))
def image(request):
    return unpacked(request.param)


def test_all_machine_code_in_an_image_is_of_arm64(image):
    assert (image.config["os"], image.config["architecture"]) == ("linux", "arm64")
    assert set(image.machines.values()) == {AARCH64}
    assert {"grpc._cython.cygrpc", "lxml.etree"} <= set(image.modules())


def test_its_command_runs(image):
    done = subprocess.run(image.command("--version"), check=True, capture_output=True, text=True)

    assert done.stdout == f"dravirt {__version__}\n"


def test_each_of_its_extension_modules_can_be_loaded(image):
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"

    subprocess.run(image.enter("/opt/dravirt/bin/python3", "-c", code, *image.modules()), check=True)


def test_the_sidecar_attaches_a_device():
    with launcher_pod("a100-mig-mdev") as pod:
        pod.allocate()
        for folder in (pod.sockets, pod.state):
            os.chown(folder, USER, USER)
        code = unpacked("hooksidecar").code("sidecar")
        sidecar = pod.start(pod.environment(entry(request="vgpu")), code=code, ready=False)
        sidecar.wait_ready(seconds=SECONDS)

        [device] = host_devices(sidecar.hook().define()).values()
        assert device.find("source/address").get("uuid") == A100_MDEV
        assert sidecar.end() == 0


def test_the_webhook_answers_a_review_over_tls(monkeypatch):
    monkeypatch.setattr(WebhookServer, "program", ("-c", unpacked("webhook").code()))
    monkeypatch.setattr(webhookserver, "_START_SECONDS", SECONDS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        certificate = issue(folder)
        os.chown(certificate.key, USER, USER)
        server = WebhookServer([], folder, certificate)
        try:
            with server.client() as client:
                answer = client.post("/mutate/vm", json=review(machines.vm("team-a", asks_on_vm="vgpu"), VM))
            assert answer.json()["response"]["patchType"] == "JSONPatch"
        finally:
            server.end()
