"""A domain that the sidecar made is started with stand-ins for its devices, and what libvirt checks at a start."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.libvirtembed import Libvirt
from support.libvirtverdict import misstarted
from support.nodetree import LAYOUTS, identity
from support.required import require

from dra.device import Device
from dra.reasons import Reason

HERE = Path(__file__).parent
UNSHARE_MISSING = "a node's /sys can be laid over the host's by root alone, with CAP_SYS_ADMIN (unshare)"
LAYOUT_OF = {"ua-gpu-gpu0": "a40-mdev", "ua-gpu-gpu1": "a40-passthrough", "ua-gpu-gpu2": "amd-vf"}
VARIANT_DRIVERS_SINCE = [10, 0, 0]
"""The first libvirt that knows a VFIO driver by `vfio-dev/` and not by its name. KubeVirt has had it since 1.3."""
NAMESPACES = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
"""Runs a program whose mounts are its own, and with which all that it starts ends."""
REAPING = ["sh", "-c", '"$@"; exit $?', "sh"]
"""Runs a program as first process does: libvirt waits until a QEMU that it has killed is no zombie any more."""


def may_unshare() -> bool:
    program = shutil.which(NAMESPACES[0])
    return bool(program) and subprocess.run([*NAMESPACES, "true"], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def told(libvirt: Libvirt) -> Iterator[dict[str, Any]]:
    """What came of each start."""
    require(may_unshare(), UNSHARE_MISSING)
    with tempfile.TemporaryDirectory(prefix="lv", dir="/tmp") as folder:
        done = subprocess.run(
            [*NAMESPACES, *REAPING, sys.executable, "-B", HERE / "starts.py", folder],
            env={**os.environ, "PYTHONPATH": str(HERE.parent.parent)},
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        yield json.loads(done.stdout)


def test_domain_with_three_devices_starts_and_is_stopped(told):
    first = told["first"]
    assert first["check"] is None
    assert first["guest devices"] == dict.fromkeys(LAYOUT_OF, "child<pci-testdev>")
    assert first["gone"]


def test_qemu_is_started_with_the_allocated_devices(told):
    """Here libvirt needs no <driver name='vfio'/>: it is the sidecar's own domain that is started."""
    devices = {alias: Device(alias, identity(LAYOUTS[layout].device)) for alias, layout in LAYOUT_OF.items()}
    assert misstarted(told["first"]["command"], devices, others={}, extra=()) == []


def test_device_of_a_running_domain_is_refused_to_another(told):
    assert {name: "is in use by driver QEMU, domain first" in fault for name, fault in told["second"].items()} == {
        "vGPU": True, "GPU": True, "VF": True
    }  # fmt: skip


def test_devices_of_a_stopped_domain_are_free_again(told):
    assert told["again"] is None


def test_vgpu_on_the_vendors_vfio_driver_starts_with_the_libvirt_of_any_kubevirt(told):
    alone = told["alone"]["vGPU VF"]
    assert alone["check"] is None
    too_old = told["version"] < VARIANT_DRIVERS_SINCE
    assert (alone["fault"] is None) != too_old
    assert not too_old or "must be manually detached from the host" in alone["fault"]


@pytest.mark.parametrize(
    ("name", "words", "reason"),
    [
        ("unknown uuid", "device not found: mediated device '99999999-1111-", Reason.MDEV_MISSING),
        ("unknown function", "", Reason.PCI_MISSING),  # 9.0: "An error occurred, but the cause is unknown"
        ("driver of the host", "must be manually detached from the host", Reason.WRONG_DRIVER),
        ("other API", "device only supports 'vfio-ap'", Reason.UNSUPPORTED_MODEL),
    ],
)
def test_sidecar_refuses_before_libvirt_what_no_domain_starts_with(told, name, words, reason):
    alone = told["alone"][name]
    assert words in alone["fault"]
    assert alone["check"] == reason
