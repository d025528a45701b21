"""What a node costs: from the VM applied to the hook answered, part by part, at several CPU limits of the sidecar.

Prints a table; nothing is asserted. `python -m cluster bench` runs it in a sandbox.
"""

import datetime as dt
import sys
import time
from pathlib import Path

from cluster import handler, machines, sandbox, stack, watching
from cluster.api import Object
from cluster.images import SIDECAR_IMAGE
from cluster.stack import Stack

LIMITS = ("50m", "100m", "200m", None)
NAMESPACE = "bench"
SIDECAR = "dravirt-hook"


def main() -> int:
    """Measure at each limit and print a line for each."""
    running = sandbox.current()
    assert running, "runs in a sandbox only"
    with stack.open_stack(running) as cluster:
        _ = cluster.kubevirt, cluster.node, cluster.drivers, cluster.dravirt
        cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        cluster.api.apply(machines.template(NAMESPACE, "vgpu", machines.request("time-sliced")))
        sys.stdout.write("limit  scheduled  sidecar-started  served  pod-ready  hook-answered  sidecar-memory\n")
        for limit in LIMITS:
            sys.stdout.write(_line(limit, *_measure(cluster, limit)))
            sys.stdout.flush()
    return 0


def _measure(cluster: Stack, limit: str | None) -> tuple[list[float], int]:
    """Return seconds from the VM applied to each step, and the bytes of the sidecar's control group."""
    api = cluster.api
    resources = {"limits": {"cpu": limit}, "requests": {"cpu": "10m"}} if limit else {}
    cluster.dravirt.configure({"sidecar": {"image": SIDECAR_IMAGE, "resources": resources}})
    compute = {"requests": {"cpu": "10m"}, **({"limits": {"cpu": "500m"}} if limit else {})}
    began = time.time()
    api.apply(machines.vm(NAMESPACE, asks="vgpu", domain={"resources": compute}))
    watching.bound(api, watching.launcher(api, NAMESPACE))
    scheduled = time.time() - began
    pod = watching.running(api, watching.launcher(api, NAMESPACE))
    ready = time.time() - began
    handler.define(cluster.node, pod, watching.vmi_of(api, NAMESPACE))
    answered = time.time() - began
    started, served = (_started(pod, name) - began for name in (SIDECAR, "guest-console-log"))
    memory = _memory(cluster.node.pid(pod, SIDECAR))
    watching.clear(api, NAMESPACE)
    return [scheduled, started, served, ready, answered], memory


def _started(pod: Object, container: str) -> float:
    """Return when a container started: the kubelet gives whole seconds."""
    (status,) = (each for each in pod["status"]["initContainerStatuses"] if each["name"] == container)
    return dt.datetime.fromisoformat(status["state"]["running"]["startedAt"]).timestamp()


def _memory(pid: int) -> int:
    """Return the memory of a process's control group, without the page cache (version 1 of control groups)."""
    groups = dict(line.split(":", 2)[1:] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines())
    statistics = Path(f"/sys/fs/cgroup/memory{groups['memory']}/memory.stat").read_text()
    return int(dict(line.split() for line in statistics.splitlines())["rss"])


def _line(limit: str | None, steps: list[float], memory: int) -> str:
    cells = "  ".join(f"{each:6.1f} s" for each in steps)
    return f"{limit or 'none':5}  {cells}  {memory / 2**20:5.1f} MiB\n"


if __name__ == "__main__":
    sys.exit(main())
