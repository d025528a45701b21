"""What this machine must have, and which Debian package brings it."""

import shutil
from collections.abc import Iterable
from pathlib import Path

_AARCH64 = "/proc/sys/fs/binfmt_misc/qemu-aarch64"
"""Tells the kernel how programs for arm64 are run."""
PACKAGES = {
    "/usr/lib/cni/ptp": "containernetworking-plugins",
    "/bin/busybox": "busybox-static",
    _AARCH64: "binfmt-support qemu-user-static",
    "buildah": "buildah",
    "conntrack": "conntrack",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "iptables": "iptables",
    "nft": "nftables",
    "nsenter": "util-linux",
    "runc": "runc",
    "setpriv": "util-linux",
    "unshare": "util-linux",
}
BASE = ("ip", "nsenter", "setpriv", "unshare")
IMAGES = ("buildah", "debootstrap", "/bin/busybox")
ARM64 = ("buildah", "debootstrap", _AARCH64)
NODE = ("/usr/lib/cni/ptp", "conntrack", "iptables", "nft", "runc")


class Missing(Exception):
    """This machine lacks something that the cluster needs. The text says what and how to get it."""


def require(programs: Iterable[str]) -> None:
    """Raise Missing, with the command that installs them, where one of `programs` is not there."""
    missing = [program for program in programs if not _find(program)]
    if missing:
        packages = " ".join(sorted({PACKAGES[program] for program in missing}))
        raise Missing(
            f"not found: {', '.join(missing)}. On Debian: apt-get install -y --no-install-recommends {packages}"
        )


def _find(program: str) -> str | None:
    if program.startswith("/"):
        return program if Path(program).exists() else None
    return shutil.which(program)
