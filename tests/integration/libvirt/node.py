"""A process in which the host's PCI functions and mediated devices are those of a node with GPUs.

libvirt reads /sys and /dev whatever it is told, so a node's tree is laid over them, in a mount namespace that `unshare
--mount` has made for this process: the machine itself stays as it is.
"""

import subprocess
from pathlib import Path

from support.nodetree import NodeTree

_SYS_OF_HOST = ("devices/system", "fs", "module", "kernel/mm")
"""What of the host's /sys stays: libvirt reads of the CPUs and the memory there."""
_DEV_OF_HOST = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "net")
_STATUS, _CAPABILITIES = 0x06, 0x34
_HAS_CAPABILITIES, _PCI_EXPRESS = 0x10, 0x10


def lay_over_host(tree: NodeTree) -> None:
    """Make a node's tree this process's /sys and /dev, and give it a /run of its own."""
    for link in (tree.root / "sys/bus/pci/devices").iterdir():
        _complete(tree, tree.function(link.name))
    for top, names in (("sys", _SYS_OF_HOST), ("dev", _DEV_OF_HOST)):
        for name in names:
            _bind(Path("/", top, name), tree.root / top / name)
        _mount("--rbind", str(tree.root / top), f"/{top}")
    # There libvirt notes which domain holds which device, for the whole machine.
    _mount("-t", "tmpfs", "tmpfs", "/run")


def _complete(tree: NodeTree, function: str) -> None:
    """Give a PCI function the files that libvirt reads beyond those that the sidecar does."""
    space = bytearray(256)
    space[_STATUS], space[_CAPABILITIES], space[0x40] = _HAS_CAPABILITIES, 0x40, _PCI_EXPRESS
    (tree.root / function / "config").write_bytes(space)
    for name in ("driver_override", "modalias", "reset", "resource"):
        tree.write(f"{function}/{name}", "")


def _bind(source: Path, target: Path) -> None:
    if not source.exists():
        return
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.touch()
    _mount("--rbind", str(source), str(target))


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)
