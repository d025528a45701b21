"""The cluster's programs, built from the Go modules that are pinned under `go/`."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cluster.cache import cache_root, key_of, one_at_a_time
from cluster.host import Missing
from cluster.progress import step

GO = Path(__file__).with_name("go")


@dataclass(frozen=True, slots=True)
class Program:
    """A program and the package it is built from. `module` is the folder under `go/` that pins it."""

    name: str
    module: str
    package: str
    tags: str = ""
    minutes: float = 1
    """A first build on two cores."""

    @property
    def is_ours(self) -> bool:
        """True where the source is beside the pins."""
        return self.package.startswith("./")


def _kubernetes(name: str, minutes: float, module: str = "kubernetes") -> Program:
    return Program(name, module, f"k8s.io/kubernetes/cmd/{name}", minutes=minutes)


def _containerd(name: str, minutes: float) -> Program:
    package = f"github.com/containerd/containerd/v2/cmd/{name}"
    return Program(name, "containerd", package, "no_btrfs no_devmapper no_zfs", minutes)


CONTROL_PLANE = (
    Program("etcd", "etcd", "go.etcd.io/etcd/server/v3", minutes=1.5),
    _kubernetes("kube-apiserver", 7),
    _kubernetes("kube-controller-manager", 3),
    _kubernetes("kube-scheduler", 1),
    _kubernetes("kubectl", 1),
)
DRA_OFF = (_kubernetes("kube-apiserver", 7, "kubernetes-1.34"),)
"""In place of the one above: in later versions DRA cannot be switched off."""
KUBEVIRT = (
    Program("objects", "kubevirt", "./objects", minutes=3),
    Program("virt-api", "kubevirt", "kubevirt.io/kubevirt/cmd/virt-api", minutes=2),
    Program("virt-controller", "kubevirt", "kubevirt.io/kubevirt/cmd/virt-controller"),
)
NODE = (
    _containerd("containerd", 4),
    _containerd("containerd-shim-runc-v2", 0.5),
    _containerd("ctr", 0.5),
    _kubernetes("kubelet", 3),
    _kubernetes("kube-proxy", 0.5),
    Program("launcher", "kubevirt", "./launcher"),
    Program("sidecar-shim", "kubevirt", "kubevirt.io/kubevirt/cmd/sidecars"),
)


def build(programs: Iterable[Program]) -> dict[str, Path]:
    """Return the path of each program by its name, built where the cache lacks it.

    Programs in the folder that KUBEBUILDER_ASSETS names are taken from there. Raises Missing where Go is not there or
    a build fails.
    """
    given = Path(os.environ.get("KUBEBUILDER_ASSETS") or os.devnull)
    return {each.name: given / each.name if (given / each.name).is_file() else _cached(each) for each in programs}


def _cached(program: Program) -> Path:
    pins = GO / program.module
    sources = [pins / "go.mod", pins / "go.sum", *(pins.rglob("*.go") if program.is_ours else ())]
    folder = cache_root() / f"{program.module}-{key_of(sources, _ld_flags(program.module))}"
    path = folder / program.name
    if not path.exists():
        with one_at_a_time(folder):
            if not path.exists():
                _build(program, pins, path)
    return path


def _build(program: Program, pins: Path, path: Path) -> None:
    unfinished = path.with_suffix(".unfinished")
    command = [_go(), "build", "-trimpath", "-buildvcs=false", "-tags", program.tags]
    command += ["-ldflags", _ld_flags(program.module), "-o", str(unfinished), program.package]
    with step(f"building {program.name}", f"a first build takes about {program.minutes:g} min"):
        done = subprocess.run(command, cwd=pins, env=_environment(), check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise Missing(f"`{' '.join(command)}` failed in {pins}:\n{done.stderr[-4000:]}")
    unfinished.rename(path)


def _environment() -> Mapping[str, str]:
    """Return the environment of a build: no cgo, so that the programs run in any root file system."""
    return {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}


def _ld_flags(module: str) -> str:
    if not module.startswith("kubernetes"):
        return "-s -w"
    # Without a version the server calls itself v0.0.0, and clients that look at it misbehave.
    version = _pinned(r"k8s\.io/kubernetes (v\S+)", module)
    major, minor, _ = version.removeprefix("v").split(".")
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return "-s -w " + " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items())


def _go() -> str:
    if found := shutil.which("go"):
        return found
    wanted = _pinned(r"^go (\d+\.\d+)")
    raise Missing(f"not found: go. The cluster's programs are built with Go {wanted} or later (https://go.dev/dl)")


def _pinned(pattern: str, module: str = "kubernetes") -> str:
    found = re.search(pattern, (GO / module / "go.mod").read_text(), re.MULTILINE)
    if not found:
        raise ValueError(f"{GO}/{module}/go.mod does not say {pattern}")
    return found[1]
