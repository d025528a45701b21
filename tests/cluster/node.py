"""A node: containerd, a kubelet and kube-proxy, all on this machine."""

import datetime as dt
import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.api import ApiError, Object, is_true
from cluster.controlplane import NODE, PROXY, ControlPlane
from cluster.images import PAUSE_IMAGE
from cluster.network import HOST, PODS
from cluster.process import Process, Processes

NAME = "node-1"
_CNI = Path("/usr/lib/cni")


@dataclass(frozen=True, slots=True)
class Node:
    """A node that runs pods."""

    folder: Path
    programs: Mapping[str, Path]
    processes: Mapping[str, Process]

    @property
    def cdi(self) -> Path:
        """Where drivers put CDI specs."""
        return self.folder / "cdi"

    @property
    def kubelet(self) -> Path:
        """The kubelet's root folder."""
        return self.folder / "kubelet"

    def volume(self, pod: Object, name: str) -> Path:
        """Return the folder of a pod's emptyDir."""
        return self.kubelet / "pods" / pod["metadata"]["uid"] / "volumes" / "kubernetes.io~empty-dir" / name

    def logs(self, pod: Object, container: str) -> str:
        """Return what a container has written, all its restarts together."""
        metadata = pod["metadata"]
        folder = self.folder / "pods" / f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}" / container
        return "".join(path.read_text() for path in sorted(folder.glob("*.log")))

    def wrote_at(self, pod: Object, container: str, text: str) -> float:
        """Return when a container wrote its first line with `text`, in seconds since 1970."""
        line = next(each for each in self.logs(pod, container).splitlines() if text in each)
        return dt.datetime.fromisoformat(line.split()[0]).timestamp()

    def started_at(self, pod: Object, container: str) -> float:
        """Return when a container's first process was started, in seconds since 1970.

        The kubelet gives whole seconds. Source: proc_pid_stat(5), starttime.
        """
        ticks = int(Path(f"/proc/{self.pid(pod, container)}/stat").read_text().rpartition(")")[2].split()[19])
        booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        return booted + ticks / os.sysconf("SC_CLK_TCK")

    def execute(self, pod: Object, container: str, *command: str) -> str:
        """Run a command in a container and return its output. Raises CalledProcessError."""
        ctr = [self.programs["ctr"], "--address", self.folder / "containerd.sock", "-n", "k8s.io"]
        run = [
            *ctr,
            "tasks",
            "exec",
            "--exec-id",
            f"test-{time.monotonic_ns()}",
            container_id(pod, container),
            *command,
        ]
        return subprocess.run(run, check=True, capture_output=True, text=True).stdout

    def import_image(self, archive: Path) -> None:
        """Give the node an image, which is then not pulled."""
        ctr = [self.programs["ctr"], "--address", self.folder / "containerd.sock", "-n", "k8s.io", "images", "import"]
        subprocess.run([*ctr, archive], check=True, capture_output=True)

    def tag_image(self, name: str, other: str) -> None:
        """Let an image be there by another name as well."""
        ctr = [self.programs["ctr"], "--address", self.folder / "containerd.sock", "-n", "k8s.io", "images", "tag"]
        subprocess.run([*ctr, "--force", name, other], check=True, capture_output=True)

    def pid(self, pod: Object, container: str) -> int:
        """Return the process id of a container's first process."""
        ctr = [self.programs["ctr"], "--address", self.folder / "containerd.sock", "-n", "k8s.io", "tasks", "list"]
        wanted = container_id(pod, container)
        for line in subprocess.run(ctr, check=True, capture_output=True, text=True).stdout.splitlines():
            identifier, pid, *_ = line.split()
            if identifier == wanted:
                return int(pid)
        raise LookupError(f"{container} of {pod['metadata']['name']} does not run")


def container_id(pod: Object, container: str) -> str:
    """Return the runtime's id of a container."""
    status = pod["status"]
    for each in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        if each["name"] == container and each.get("containerID"):
            return str(each["containerID"]).removeprefix("containerd://")
    raise LookupError(f"{container} of {pod['metadata']['name']} has not been started")


def start(
    processes: Processes,
    programs: Mapping[str, Path],
    plane: ControlPlane,
    folder: Path,
    *,
    cgroup: str,
    images: Sequence[Path],
) -> Node:
    """Start a node whose state is in `folder`, whose pods are below `cgroup` and that has `images`. Raises NotReady."""
    folder.mkdir()
    started = {"containerd": _start_containerd(processes, programs, folder)}
    node = Node(folder, programs, started)
    for archive in images:
        node.import_image(archive)
    started["kubelet"] = _start_kubelet(processes, programs, plane, folder, cgroup)
    api = plane.api()

    def ready() -> bool:
        found = api.get("v1", "Node", NAME)
        return is_true(found, "Ready")

    started["kubelet"].wait_until(ready, seconds=90, what="node Ready")
    # With the node lifecycle controller off, nobody else removes the taint of a new node.
    with suppress(ApiError):
        api.merge({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME}}, {"spec": {"taints": None}})
    started["kube-proxy"] = _start_proxy(processes, programs, plane, folder)
    return node


def _start_containerd(processes: Processes, programs: Mapping[str, Path], folder: Path) -> Process:
    cni = folder / "cni"
    cni.mkdir()
    (folder / "cdi").mkdir()
    ipam = {
        "type": "host-local",
        "subnet": PODS,
        "dataDir": str(folder / "cni-addresses"),
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    network = {"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "ptp", "ipMasq": False, "ipam": ipam}]}
    (cni / "10-pods.conflist").write_text(json.dumps(network))
    config = folder / "containerd.toml"
    config.write_text(_CONTAINERD.format(folder=folder, cni=_CNI, pause=PAUSE_IMAGE))
    # It finds its shim, runc and the CNI plugins along PATH.
    path = f"{programs['containerd-shim-runc-v2'].parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    process = processes.start("containerd", [programs["containerd"], "--config", config], environment={"PATH": path})
    ctr = [programs["ctr"], "--address", folder / "containerd.sock", "version"]

    def answers() -> bool:
        return subprocess.run(ctr, check=False, capture_output=True).returncode == 0

    process.wait_until(answers, seconds=90, what="answering")
    return process


_CONTAINERD = """\
version = 3
root = "{folder}/containerd"
state = "{folder}/containerd-run"

[grpc]
address = "{folder}/containerd.sock"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{pause}"

[plugins."io.containerd.cri.v1.runtime"]
enable_cdi = true
cdi_spec_dirs = ["{folder}/cdi"]
# Without CAP_SYS_RESOURCE runc cannot lower a container's oom_score_adj and gives up.
restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{cni}"]
conf_dir = "{folder}/cni"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
"""


def _start_kubelet(
    processes: Processes, programs: Mapping[str, Path], plane: ControlPlane, folder: Path, cgroup: str
) -> Process:
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{folder}/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": ["pods"],
        "evictionHard": dict.fromkeys(("imagefs.available", "nodefs.available", "nodefs.inodesFree"), "0%"),
        "makeIPTablesUtilChains": False,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "podLogsDir": str(folder / "pods"),
        "volumePluginDir": str(folder / "volume-plugins"),
        "address": HOST,
        "healthzPort": 0,
        "maxPods": 200,
        "syncFrequency": "5s",
        "nodeStatusUpdateFrequency": "5s",
        "volumeStatsAggPeriod": "-1s",
    }
    path = folder / "kubelet.json"
    path.write_text(json.dumps(config))
    flags = [f"--kubeconfig={plane.kubeconfig(NODE)}", f"--config={path}", f"--root-dir={folder / 'kubelet'}"]
    # Without an address it looks for one by name, which takes until the look-ups time out.
    flags += [f"--hostname-override={NAME}", f"--node-ip={HOST}", f"--cert-dir={folder / 'kubelet-pki'}"]
    return processes.start("kubelet", [programs["kubelet"], *flags])


def _start_proxy(processes: Processes, programs: Mapping[str, Path], plane: ControlPlane, folder: Path) -> Process:
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": PODS,
        "conntrack": {"maxPerCore": 0},
        "clientConnection": {"kubeconfig": str(plane.kubeconfig(PROXY))},
        "hostnameOverride": NAME,
    }
    path = folder / "kube-proxy.json"
    path.write_text(json.dumps(config))
    return processes.start("kube-proxy", [programs["kube-proxy"], f"--config={path}"])
