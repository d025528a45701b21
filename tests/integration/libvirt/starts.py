"""Start domains that the sidecar made, on a node that is laid over this machine, and print what came of it as JSON.

Run by test_start.py as `unshare --mount python starts.py FOLDER`; the folder's path must be short, for sockets.
"""

import json
import resource
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lxml import etree
from node import lay_over_host
from support import domains
from support.domains import placeholder
from support.libvirtdomains import DISK, for_emulation, next_pass, small_domain
from support.libvirtembed import Libvirt
from support.nodetree import LAYOUTS, NodeTree, identity

from dra.device import Device
from dra.errors import DravirtError
from dra.intent import Mode
from hooksidecar.domain import edit_domain
from hooksidecar.sysfs import HostTree
from hooksidecar.verification import verify

VGPU, GPU, VF, VGPU_VF = (LAYOUTS[name].device for name in ("a40-mdev", "a40-passthrough", "amd-vf", "l40s-vf"))
OF_HOST, OTHER_API = "0000:66:00.0", LAYOUTS["t4-mdev"].device
VNC_SOCKET = "/var/run/kubevirt-private/virt-vnc"
GRAPHICS = f'<graphics type="vnc"><listen type="socket" socket="{VNC_SOCKET}"/></graphics>'
ALONE = {
    "vGPU VF": VGPU_VF,
    "unknown uuid": "99999999-1111-4111-8111-999999999999",
    "unknown function": "0000:99:00.0",
    "driver of the host": OF_HOST,
    "other API": OTHER_API,
}
"""What a domain is started with on its own."""


def lay_out(root: Path) -> NodeTree:
    """Lay out a node with a device of each kind, and with some that no VM can have."""
    tree = NodeTree(root)
    for name in ("a40-mdev", "a40-passthrough", "amd-vf", "l40s-vf", "t4-mdev"):
        LAYOUTS[name].build(tree)
    tree.pci(OF_HOST, device="0x2235", driver="nvidia", group=49)
    tree.write(f"sys/bus/mdev/devices/{OTHER_API}/mdev_type/device_api", "vfio-ap")
    return tree


class Host:
    """A machine with libvirt on which domains are started."""

    def __init__(self, folder: Path) -> None:
        self.commands = folder / "commands"
        self.emulator = folder / "qemu"
        script = Path(__file__).with_name("emulator.py")
        self.emulator.write_text(f'#!/bin/sh\nexec {sys.executable} -B {script} {self.commands} "$@"\n')
        self.emulator.chmod(0o755)
        self.libvirt = Libvirt.open(folder)

    def domain(self, name: str, devices: Sequence[Device]) -> bytes:
        """Return the domain of a VM after two passes, ready to be started."""
        places = [placeholder(device.name, number) for number, device in enumerate(devices)]
        seen = small_domain(GRAPHICS, *places)
        first = edit_domain(seen, devices, mode=Mode.PLACEHOLDER, vmi=None)
        seen = next_pass(seen, self.libvirt.keep(for_emulation(first)), empty_type=False)
        root = domains.parse(for_emulation(edit_domain(seen, devices, mode=Mode.PLACEHOLDER, vmi=None)))
        root.find("name").text = name
        emulator = root.find("devices/emulator")
        emulator.text = str(self.emulator)
        # Locked memory is what VFIO wants for the whole guest, and the stand-in does not.
        limit = etree.SubElement(etree.SubElement(root, "memtune"), "hard_limit", unit="bytes")
        limit.text = str(resource.getrlimit(resource.RLIMIT_MEMLOCK)[1])
        return etree.tostring(root)

    @contextmanager
    def running(self, name: str, devices: Sequence[Device]) -> Iterator[Any]:
        """Run a domain as long as the block takes."""
        domain = self.libvirt.connection.defineXML(self.domain(name, devices).decode())
        try:
            domain.create()
            yield domain
        finally:
            if domain.isActive():
                domain.destroy()
            domain.undefine()

    def fault(self, name: str, devices: Sequence[Device]) -> str | None:
        """Return why a domain does not start."""
        try:
            with self.running(name, devices):
                return None
        except self.libvirt.api.libvirtError as error:
            return str(error)

    @contextmanager
    def event_loop(self) -> Iterator[None]:
        """Run libvirt's event loop, which a running domain needs."""
        stopped = threading.Event()

        def run() -> None:
            while not stopped.is_set():
                self.libvirt.api.virEventRunDefaultImpl()

        self.libvirt.api.virEventAddTimeout(100, lambda *_: None, None)  # or it would sleep for ever
        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()


def allocated(*devices: str) -> list[Device]:
    return [Device(f"gpu{number}", identity(device)) for number, device in enumerate(devices)]


def checked(devices: Sequence[Device]) -> str | None:
    """Return the code with which the sidecar's own check refuses the devices, None where it does not."""
    try:
        verify(devices, HostTree(Path("/")))
    except DravirtError as error:
        return error.reason
    return None


def guest_devices(domain: Any) -> dict[str, str]:
    """Return which host devices QEMU has, by alias, and as what."""
    import libvirt_qemu

    question = {"execute": "qom-list", "arguments": {"path": "/machine/peripheral"}}
    answer = json.loads(libvirt_qemu.qemuMonitorCommand(domain, json.dumps(question), 0))
    return {each["name"]: each["type"] for each in answer["return"] if each["name"].startswith("ua-gpu-")}


def story(host: Host) -> dict[str, Any]:
    """Start one domain after the other and return what came of each."""
    for file in (DISK, VNC_SOCKET):
        Path(file).parent.mkdir(parents=True)
    Path(DISK).write_bytes(bytes(1 << 20))
    devices = allocated(VGPU, GPU, VF)
    shared = {"vGPU": VGPU, "GPU": GPU, "VF": VF}
    with host.running("first", devices) as domain:
        first = {
            "check": checked(devices),
            "command": json.loads(host.commands.read_text()),
            "guest devices": guest_devices(domain),
        }
        second = {name: host.fault("second", allocated(device)) for name, device in shared.items()}
        pid = int((host.libvirt.folder / "run/qemu/first.pid").read_text())
    return {
        "version": host.libvirt.version,
        "first": first | {"gone": not Path(f"/proc/{pid}").exists()},
        "second": second,
        "again": host.fault("again", devices),
        "alone": {
            name: {"check": checked(allocated(device)), "fault": host.fault("alone", allocated(device))}
            for name, device in ALONE.items()
        },
    }


def main(folder: Path) -> None:
    (folder / "node").mkdir()
    lay_over_host(lay_out(folder / "node"))
    host = Host(folder)
    with host.event_loop():
        sys.stdout.write(json.dumps(story(host)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
