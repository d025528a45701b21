"""The container around the sidecar: its user, a read-only root, a full disk. What needs root is left out without it."""

import json
import os
import subprocess
import sys

import pytest
from support.claimed import entry
from support.domains import GRAPHICS, host_devices, placeholder, small_domain, source
from support.launcher import RELEASES, Launcher
from support.nodetree import A100_MDEV
from support.required import require

ENTRY = entry(request="vgpu")
DOMAIN = small_domain(placeholder("gpu0"), GRAPHICS)
NEEDS_ROOT = "only root can change users, mounts and limits of a process"

# Another user may not be able to read this interpreter's library, so everything is imported before.
AS_QEMU = """
import json, os, sys
from pathlib import Path
{imports}
os.setgroups([])
os.setgid({gid})
os.setuid(107)
{rest}
"""
SIDECAR = AS_QEMU.format(imports="from hooksidecar.main import serve", gid=107, rest="sys.exit(serve(os.environ))")
VIRT_LAUNCHER = AS_QEMU.format(
    imports="from support.launcher import RELEASES, Launcher",
    gid=4242,
    rest="""
launcher = Launcher(Path(sys.argv[1]), RELEASES[sys.argv[2]])
launcher.collect(1)
sys.stdout.write(launcher.sync(sys.stdin.buffer.read()).decode())
""",
)


def attached(domain):
    return {name: source(element).get("uuid") for name, element in host_devices(domain).items()}


def start_vm(pod, release="v1.8"):
    launcher = Launcher(pod.sockets, RELEASES[release])
    launcher.collect(1)
    return attached(launcher.sync(DOMAIN))


@pytest.mark.parametrize("release", ["v1.5", "v1.8"])
def test_virt_launcher_of_another_group_finds_a_sidecar_with_a_strict_umask(pod, release):
    require(os.geteuid() == 0, NEEDS_ROOT)
    pod.allocate()
    for folder in (pod.sockets, pod.state):
        os.chown(folder, 107, 107)
        folder.chmod(0o755)
    pod.start(pod.environment(ENTRY), code=SIDECAR, umask=0o077)
    command = [sys.executable, "-c", VIRT_LAUNCHER, str(pod.sockets), release]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, input=DOMAIN, env=environment, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    assert attached(done.stdout) == {"ua-gpu-gpu0": A100_MDEV}
    assert (pod.state / "devices.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o700, 0o500, 0o300], ids=["closed", "read-only", "write-only"])
def test_state_folder_of_another_user_costs_the_memory_of_a_restart_and_not_the_vm(pod, mode):
    require(os.geteuid() == 0, NEEDS_ROOT)
    pod.allocate()
    os.chown(pod.sockets, 107, 107)
    if mode != 0o700:
        os.chown(pod.state, 107, 107)
    pod.state.chmod(mode)
    sidecar = pod.start(pod.environment(ENTRY), code=SIDECAR)
    assert start_vm(pod) == {"ua-gpu-gpu0": A100_MDEV}
    warnings = [line["reason"] for line in sidecar.entries() if line["level"] != "info"]
    assert set(warnings) <= {"unreadable", "unwritable"}
    assert warnings


READ_ONLY = """
set -e
mount --make-rprivate /
mount --bind "$0" "$0"
mount -o remount,bind,ro /
if touch /usr/.written 2>/dev/null; then exit 99; fi
exec "$@"
"""


def test_read_only_root_is_no_hindrance(pod):
    """Only the volumes of sockets and state are written to: no cache, no temporary file, no home."""
    require(os.geteuid() == 0, NEEDS_ROOT)
    probe = subprocess.run(["unshare", "-m", "mount", "-o", "remount,bind,ro", "/"], capture_output=True, check=False)
    require(probe.returncode == 0, f"no mount namespace to be had: {probe.stderr.decode()}")
    pod.allocate()
    code = f"""
import os, sys
os.execvp("unshare", ["unshare", "-m", "sh", "-c", {READ_ONLY!r}, {str(pod.folder)!r},
          sys.executable, "-m", "hooksidecar"])
"""
    sidecar = pod.start(pod.environment(ENTRY), code=code)
    assert start_vm(pod) == {"ua-gpu-gpu0": A100_MDEV}
    assert json.loads((pod.state / "devices.json").read_bytes())["devices"]
    assert [line for line in sidecar.entries() if line["level"] != "info"] == []


@pytest.fixture
def full_disk(pod):
    """The state's volume, on a disk on which nothing is left."""
    require(os.geteuid() == 0, NEEDS_ROOT)
    mount = ["mount", "-t", "tmpfs", "-o", "size=4k,mode=0777", "tmpfs", str(pod.state)]
    done = subprocess.run(mount, capture_output=True, check=False)
    require(done.returncode == 0, f"no tmpfs to be had: {done.stderr.decode()}")
    (pod.state / "filler").write_bytes(b"x" * 4096)
    yield pod.state
    subprocess.run(["umount", "--lazy", str(pod.state)], check=True)


def test_full_disk_costs_the_memory_of_a_restart_and_not_the_vm(pod, full_disk):
    pod.allocate()
    sidecar = pod.start(pod.environment(ENTRY))
    assert start_vm(pod) == {"ua-gpu-gpu0": A100_MDEV}
    [warning] = [line for line in sidecar.entries() if line["level"] != "info"]
    assert (warning["level"], warning["reason"]) == ("warning", "unwritable")
    assert "No space left on device" in warning["message"]
    sidecar.end()
    pod.start(pod.environment(ENTRY))
    assert start_vm(pod) == {"ua-gpu-gpu0": A100_MDEV}


def test_state_of_before_outlives_a_disk_that_filled_up(pod, full_disk):
    pod.allocate()
    (full_disk / "filler").unlink()
    pod.start(pod.environment(ENTRY)).end()
    before = (full_disk / "devices.json").read_bytes()
    sidecar = pod.start(pod.environment(ENTRY | {"display": False}))  # another intent: it is written anew
    assert "unwritable" in [line.get("reason") for line in sidecar.entries()]
    assert (full_disk / "devices.json").read_bytes() == before
    sidecar.end()
    again = pod.start(pod.environment(ENTRY))
    assert [device["source"] for line in again.entries() for device in line.get("devices", [])] == ["state"]


FILE_SIZE = """
import os, resource, sys
from hooksidecar.main import serve
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
sys.stderr = os.fdopen(os.dup(1), "w", buffering=1)
code = serve(os.environ)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))  # for coverage
sys.exit(code)
"""


def test_file_that_cannot_grow_is_a_warning(pod):
    """A limit that any user can set: the log goes to a pipe, to which it does not apply."""
    pod.allocate()
    sidecar = pod.start(pod.environment(ENTRY), code=FILE_SIZE, stdout=subprocess.PIPE)
    assert start_vm(pod) == {"ua-gpu-gpu0": A100_MDEV}
    sidecar.end()
    entries = [json.loads(line) for line in sidecar.process.stdout]
    assert [line["reason"] for line in entries if line["level"] == "warning"] == ["unwritable"]
    assert not (pod.state / "devices.json").exists()
