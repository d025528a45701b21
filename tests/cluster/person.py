"""A cluster for a person: started in the background, with what to try, until `down`."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, TextIO

from cluster import handler, sandbox, stack
from cluster.cache import cache_root
from cluster.controlplane import KUBEVIRT_HANDLER
from cluster.host import Missing
from cluster.images import TREE
from cluster.machines import devices, request, template, vm
from cluster.process import NotReady, until
from cluster.progress import say
from cluster.sandbox import Sandbox

STARTUP = 300
"""Seconds until everything must run."""


def up() -> int:
    """Start a cluster in the background and say what to do with it."""
    if _running():
        say("a cluster is running already: `python -m cluster status`")
        return 1
    image = stack.prepare("node")
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    logs = folder / "logs"
    for old in logs.glob("*.log"):
        old.unlink()
    (folder / "ready").unlink(missing_ok=True)
    command = [sys.executable, "-m", "cluster.person", str(folder)]
    logs.mkdir(exist_ok=True)
    # It must not hold the terminal, or the pipe, of the one who started it.
    with (logs / "cluster.log").open("wb") as said:
        process = sandbox.start(
            command, logs, image, detached=True, start_new_session=True,
            cwd=TREE, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
        )  # fmt: skip
    (folder / "pid").write_text(str(process.pid))

    with (logs / "cluster.log").open() as said:
        _wait_until_ready(process, folder, said)
    say(_what_to_try(logs))
    return 0


def _wait_until_ready(process: subprocess.Popen[bytes], folder: Path, said: TextIO) -> None:
    """Repeat what the cluster says until it is ready. Raises Missing where it does not come up."""

    def ready() -> bool:
        for line in said:
            say(line.rstrip())
        return (folder / "ready").exists()

    def failed(*, late: bool) -> str | None:
        return f"; its logs are in {folder / 'logs'}" if late or process.poll() is not None else None

    try:
        until(ready, seconds=STARTUP, what="the cluster ready", failed=failed)
    except NotReady as error:
        process.kill()
        raise Missing(str(error)) from error


def down() -> int:
    """End the cluster."""
    pid = _running()
    if not pid:
        say("no cluster is running")
        return 0
    os.kill(pid, signal.SIGKILL)  # everything in the sandbox ends with it
    until(lambda: not _running(), seconds=30, what="the cluster's end")
    (_folder() / "pid").unlink()
    say("the cluster is gone")
    return 0


def status() -> int:
    """Say whether a cluster runs. The exit code is 0 where one does, else 1."""
    pid = _running()
    say(_what_to_try(_folder() / "logs") if pid else "no cluster is running: `make cluster` starts one")
    return 0 if pid else 1


def shell(command: list[str]) -> int:
    """Run a command, or a shell, where `kubectl` reaches the cluster."""
    pid = _running()
    if not pid:
        say("no cluster is running: `make cluster` starts one")
        return 1
    inside = _first_process(pid)
    kubectl = stack.programs.build(stack.programs.CONTROL_PLANE)["kubectl"]
    environment = {
        **os.environ,
        "KUBECONFIG": str(sandbox.STATE / "control-plane" / "admin.kubeconfig"),
        "PATH": f"{kubectl.parent}:{os.environ['PATH']}",
    }
    enter = ["nsenter", f"--target={inside}", "--net", "--mount", "--pid", f"--wd={TREE}"]
    words = command or [os.environ.get("SHELL", "/bin/sh")]
    return subprocess.run([*enter, *words], env=environment, check=False).returncode


def _serve(folder: Path, running: Sandbox) -> None:
    """Start every layer and wait for the end: what `up` runs in the sandbox."""
    with stack.open_stack(running) as cluster:
        _ = cluster.kubevirt, cluster.node, cluster.drivers, cluster.dravirt
        for name, item in _examples().items():
            (folder / f"{name}.json").write_text(json.dumps(item, indent=2))
        cluster.keep(lambda api: handler.start_guests(api, cluster.node, folder), KUBEVIRT_HANDLER)
        (folder / "ready").touch()
        signal.pause()


def _examples() -> dict[str, Any]:
    asks = devices({"name": "gpu0", "resourceClaimTemplateName": "vgpu"})
    items = [template("default", "vgpu", request("mig-backed")), vm("default", "demo", asks=asks)]
    return {"demo-vm": {"apiVersion": "v1", "kind": "List", "items": items}}


def _what_to_try(logs: Path) -> str:
    return f"""
A cluster runs: Kubernetes, KubeVirt's control plane, one node, two stand-in DRA drivers, dravirt from this tree.
There is no GPU, no virt-handler and no QEMU: a stand-in for virt-launcher lets the hooks change the domain, which is
written to {_folder()}.

  make cluster-shell                     a shell in which kubectl reaches the cluster; there:
    kubectl apply -f {_folder()}/demo-vm.json
    kubectl get vm,vmi,pods,resourceclaims
    kubectl get pod -l kubevirt.io=virt-launcher -o yaml
    cat {_folder()}/default_demo.xml
  make cluster-down                      the end of it

What each program says is in {logs}.
"""


def _folder() -> Path:
    return cache_root() / "person"


def _running() -> int | None:
    """Return the process that a cluster ends with, None where none runs."""
    try:
        pid = int((_folder() / "pid").read_text())
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return None
    return pid if b"unshare" in words else None


def _first_process(pid: int) -> int:
    """Return the sandbox's first process: the child of the one that made it."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


if __name__ == "__main__":
    _inside = sandbox.current()
    assert _inside, "runs in a sandbox only"
    _serve(Path(sys.argv[1]), _inside)
