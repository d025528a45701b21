"""What a node costs: from the VM applied to the hook answered, part by part, at several CPU limits of the sidecar.

Prints a table; nothing is asserted. `python -m cluster bench` runs it in a sandbox.
"""

import sys
import time

from cluster import handler, machines, sandbox, stack, watching
from cluster.cgroups import memory_of
from cluster.images import SIDECAR_IMAGE
from cluster.stack import Stack

LIMITS = ("50m", "100m", "200m", None)
NAMESPACE = "bench"
SIDECAR = "dravirt-hook"
STEPS = ("scheduled", "sidecar started", "served", "pod ready", "hook answered")


def main() -> int:
    """Measure at each limit and print a line for each."""
    running = sandbox.current()
    assert running, "runs in a sandbox only"
    with stack.open_stack(running) as cluster:
        _ = cluster.kubevirt, cluster.node, cluster.drivers, cluster.dravirt
        cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        cluster.api.apply(machines.template(NAMESPACE, "vgpu", machines.request("time-sliced")))
        sys.stdout.write(f"limit  {'  '.join(f'{each:>15}' for each in STEPS)}  sidecar's memory\n")
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
    started = cluster.node.started_at(pod, SIDECAR) - began
    served = cluster.node.wrote_at(pod, SIDECAR, "serving on") - began
    memory, _ = memory_of(cluster.node.pid(pod, SIDECAR))
    watching.clear(api, NAMESPACE)
    return [scheduled, started, served, ready, answered], memory


def _line(limit: str | None, steps: list[float], memory: int) -> str:
    cells = "  ".join(f"{each:13.2f} s" for each in steps)
    return f"{limit or 'none':5}  {cells}  {memory / 2**20:11.1f} MiB\n"


if __name__ == "__main__":
    sys.exit(main())
