"""Measure the allocation service in a large cluster: calls, bytes and time of an answer, memory, and 500 pods at once.

    PYTHONPATH=tests python bench/allocations.py                 # root, Linux: it starts a real control plane
    PYTHONPATH=tests python bench/allocations.py --slices 1000   # a quick one

In etcd there are 10,000 ResourceSlices of one driver, one per node, and 2,000 ResourceClaims, 500 of them of pods that
ask. The server runs as in a pod, with the rights that `deploy/` gives it. The bounds that must hold are printed beside
what was measured; the exit code is 1 where one does not.
"""

import argparse
import asyncio
import json
import os
import random
import ssl
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from cluster import controlplane, programs, sandbox, stack
from cluster.controlplane import WEBHOOK, ControlPlane
from cluster.dravirt import allocation_rights
from cluster.process import Process, Processes
from support.allocations import claim, device, pod, result

from webhook.allocations.gate import Gate
from webhook.allocations.service import AllocationService
from webhook.kubeaccess import find_access
from webhook.kubeclient import KubeClient
from webhook.kubedra import Cluster

ROOT = Path(__file__).parents[1]
DRIVER, NAMESPACE, PORT, NAME = "vgpu.example.com", "default", 9453, "dravirt-webhook.dravirt-system.svc"
DEVICES, WRITERS = 16, 16
MOST_CALLS, MOST_BYTES, MOST_P99, MOST_MEMORY, MOST_WAIT = 6, 256 * 1024, 250.0, 120.0, 60.0
Raw = dict[str, Any]


@dataclass
class Check:
    """What was measured, and whether it is within its bounds."""

    failed: list[str] = field(default_factory=list)

    def say(self, what: str, value: float, unit: str, *, most: float | None = None) -> None:
        bound = "" if most is None else f"   (at most {most:g})"
        print(f"  {what:<44} {value:>10,.1f} {unit}{bound}", flush=True)
        if most is not None and value > most:
            self.failed.append(what)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slices", type=int, default=10_000)
    parser.add_argument("--claims", type=int, default=2_000)
    parser.add_argument("--pods", type=int, default=500)
    args = parser.parse_args()
    running = sandbox.current()
    if running is None:
        stack.prepare("cluster")
        logs = Path(tempfile.mkdtemp(prefix="dravirt-bench-"))
        return sandbox.start([sys.executable, *sys.argv], logs, cwd=ROOT).wait()
    with Processes(running.logs) as processes:
        plane = controlplane.start(processes, programs.build(programs.CONTROL_PLANE), running.state / "control-plane")
        kubeconfig = _grant(plane)
        tokens = asyncio.run(_fill(plane, args))
        server = _serve(processes, plane, kubeconfig, running.state)
        check = Check()
        asyncio.run(_measure(check, plane, kubeconfig, tokens, server))
        plane.close()
    print(f"failed: {', '.join(check.failed)}" if check.failed else "all within their bounds")
    return 1 if check.failed else 0


def _grant(plane: ControlPlane) -> Path:
    api = plane.api()
    for each in allocation_rights():
        api.apply(each)
    return plane.kubeconfig(WEBHOOK)


def _serve(processes: Processes, plane: ControlPlane, kubeconfig: Path, folder: Path) -> Process:
    pair = plane.authority.issue("allocations", NAME)
    config = folder / "allocations.json"
    config.write_text(json.dumps({"allocationService": {"caFile": str(plane.authority.pair.certificate)}}))
    command = [sys.executable, "-m", "cli", "webhook", "--host=127.0.0.1", f"--port={PORT}", f"--config={config}"]
    command += [
        "--health-port=0",
        f"--tls-cert={pair.certificate}",
        f"--tls-key={pair.key}",
        f"--kubeconfig={kubeconfig}",
    ]
    server = processes.start("allocations", command, environment={**os.environ, "PYTHONPATH": str(ROOT)})
    server.wait_until_listening("127.0.0.1", PORT, seconds=30)
    return server


async def _fill(plane: ControlPlane, args: argparse.Namespace) -> list[str]:
    """Put slices, claims and pods into etcd; return the pods' tokens."""
    access = find_access(plane.kubeconfig())
    headers = {"Authorization": f"Bearer {access.token()}", "Content-Type": "application/json"}
    async with httpx.AsyncClient(base_url=access.url, verify=access.tls, headers=headers, timeout=60) as client:
        busy = asyncio.Semaphore(WRITERS)

        async def send(path: str, body: Raw, *, patch: bool = False) -> Any:
            async with busy:
                content = {"Content-Type": "application/merge-patch+json"} if patch else {}
                method = "PATCH" if patch else "POST"
                response = await client.request(method, path, content=json.dumps(body), headers=content)
                response.raise_for_status()
                return response.json()

        group = "/apis/resource.k8s.io/v1"

        async def entered(number: int) -> str | None:
            """Enter one claim, and for the first ones the pod that has it; return the pod's token."""
            name = f"vm{number}"
            of = None
            if number < args.pods:
                item = pod(name, claims={"dravirt-gpu0": name}, node=f"node-{number}", namespace=NAMESPACE)
                item["metadata"]["ownerReferences"][0]["uid"] = f"11111111-0000-4000-8000-{number:012}"
                del item["metadata"]["uid"], item["status"]
                of = await send(f"/api/v1/namespaces/{NAMESPACE}/pods", item)
            item = claim(name, result("v3", pool=f"node-{number}"), reserved=[of] if of else [], namespace=NAMESPACE)
            spec = {"devices": {"requests": [{"name": "vgpu", "exactly": {"deviceClassName": "vgpu"}}]}}
            path = f"{group}/namespaces/{NAMESPACE}/resourceclaims"
            await send(path, {**item, "metadata": {"name": name}, "spec": spec})
            await send(f"{path}/{name}/status", {"status": item["status"]}, patch=True)
            return None if of is None else await token(of)

        async def token(of: Raw) -> str:
            metadata = of["metadata"]
            reference = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
            spec = {"audiences": ["dravirt.io"], "boundObjectRef": reference}
            path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default/token"
            return (await send(path, {"spec": spec}))["status"]["token"]

        started = time.monotonic()
        await asyncio.gather(*[send(f"{group}/resourceslices", _slice(number)) for number in range(args.slices)])
        print(f"{args.slices} slices after {time.monotonic() - started:.0f} s", flush=True)
        tokens = await asyncio.gather(*map(entered, range(args.claims)))
        print(f"{args.claims} claims, {args.pods} pods after {time.monotonic() - started:.0f} s", flush=True)
        return [each for each in tokens if each]


def _slice(number: int) -> Raw:
    node = f"node-{number}"
    devices = [
        device(f"v{n}", mdevUUID=f"{number:08x}-0000-4000-8000-{n:012x}", type="A100-1-5C") for n in range(DEVICES)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": node}, "spec": spec}


async def _measure(check: Check, plane: ControlPlane, kubeconfig: Path, tokens: list[str], server: Process) -> None:
    print("one answer")
    calls, size = await _cost(kubeconfig, tokens[0])
    check.say("calls to the API server", calls, "", most=MOST_CALLS)
    check.say("bytes from the API server", size, "", most=MOST_BYTES)
    tls = ssl.create_default_context(cafile=str(plane.authority.pair.certificate))
    tls.check_hostname = False  # (the name is checked by the sidecar's own tests)
    limits = httpx.Limits(max_connections=len(tokens), max_keepalive_connections=0)
    url = f"https://127.0.0.1:{PORT}"
    async with httpx.AsyncClient(base_url=url, verify=tls, limits=limits, timeout=60, trust_env=False) as client:
        check.say("memory of the server before", _memory(server), "MiB")
        times = sorted([(await _ask(client, token))[1] * 1000 for token in tokens[:100]])
        check.say("time, median", statistics.median(times), "ms")
        check.say("time, 99th percentile", times[int(len(times) * 0.99)], "ms", most=MOST_P99)
        check.say("memory of the server after", _memory(server), "MiB", most=MOST_MEMORY)
        print(f"{len(tokens)} pods at once, each with a connection of its own")
        started = time.monotonic()
        asked = await asyncio.gather(*[_until_answered(client, token) for token in tokens])
        check.say("pods answered", len(tokens), "")
        check.say("told to come again", sum(asked) - len(tokens), "")
        check.say("time until the last", time.monotonic() - started, "s", most=MOST_WAIT)
        check.say("peak memory of the server", _memory(server, "VmHWM"), "MiB", most=MOST_MEMORY)


async def _cost(kubeconfig: Path, token: str) -> tuple[int, int]:
    """Return the calls and bytes of one answer, once the version is known."""
    client = KubeClient(find_access(kubeconfig))
    cluster = Cluster(client)
    service = AllocationService(lambda: cluster, dict, Gate())
    await service.answer(token)
    responses: list[httpx.Response] = []

    async def keep(response: httpx.Response) -> None:
        responses.append(response)

    client._client.event_hooks = {"response": [keep]}  # noqa: SLF001 (to count what the client itself need not)
    await service.answer(token)
    await client.close()
    return len(responses), sum(each.num_bytes_downloaded for each in responses)


async def _ask(client: httpx.AsyncClient, token: str) -> tuple[httpx.Response, float]:
    started = time.perf_counter()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    response = await client.post("/v1/allocations", content=b'{"version": 1}', headers=headers)
    return response, time.perf_counter() - started


async def _until_answered(client: httpx.AsyncClient, token: str) -> int:
    """Ask as a sidecar does, until there is an answer; return how often."""
    for count in range(1, 100):
        response, _ = await _ask(client, token)
        if response.status_code == httpx.codes.OK:
            return count
        if "retry-after" not in response.headers:
            raise RuntimeError(response.text)
        await asyncio.sleep(random.uniform(0.5, 1) * min(4, 0.5 * 2**count))
    raise RuntimeError("no answer")


def _memory(server: Process, name: str = "VmRSS") -> float:
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


if __name__ == "__main__":
    sys.exit(main())
