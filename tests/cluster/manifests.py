"""What `deploy/` holds, as kubectl renders it: overlays, components on them, and what users build on top."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from cluster import programs
from cluster.api import Api, ApiError, Object, is_true
from cluster.images import TREE
from cluster.process import until
from webhook.config import Config
from webhook.configfile import load_config

DEPLOY = TREE / "deploy"
OVERLAYS = tuple(sorted(path.name for path in (DEPLOY / "overlays").iterdir()))
COMPONENTS = tuple(sorted(path.name for path in (DEPLOY / "components").iterdir()))
_STAND_INS = Path(__file__).parent / "standins"


def render(folder: Path) -> list[Object]:
    """Return the objects of a kustomization, in the order in which kubectl applies them."""
    return list(yaml.safe_load_all(kubectl("kustomize", str(folder))))


def kubectl(*arguments: str, kubeconfig: Path | None = None) -> str:
    """Return what kubectl prints, which must be without an error and without a warning."""
    program = programs.build(programs.CONTROL_PLANE)["kubectl"]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig or os.devnull)}
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, env=environment)
    told = [
        line for line in done.stderr.splitlines() if "is missing the kubectl.kubernetes.io/last-applied" not in line
    ]
    assert (done.returncode, told) == (0, []), done.stderr
    return done.stdout


def user_kustomization(
    folder: Path, resource: Path, components: Sequence[str] = (), more: Mapping[str, Any] | None = None
) -> Path:
    """Write a kustomization on top of `resource`, as a user has one, and return its folder."""
    folder.mkdir(parents=True)
    kustomization = {
        "resources": [os.path.relpath(resource, folder)],
        "components": [os.path.relpath(DEPLOY / "components" / each, folder) for each in components],
        **(more or {}),
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return folder


def find(objects: Sequence[Object], kind: str, name: str = "") -> Object:
    """Return the one object of a kind, or the one whose name ends so."""
    (found,) = (each for each in objects if each["kind"] == kind and each["metadata"]["name"].endswith(name))
    return found


def configuration(objects: Sequence[Object], folder: Path) -> Config:
    """Return the configuration that the webhook of an installation has; `folder` is to be its ConfigMap's mount."""
    folder.mkdir()
    for name, text in find(objects, "ConfigMap", "dravirt-config")["data"].items():
        (folder / name).write_text(text)
    return load_config(folder)


def stand_in_for_operators(api: Api) -> None:
    """Make the kinds of cert-manager and OpenShift known, as far as `deploy/` uses them."""
    made = [api.apply(each) for path in sorted(_STAND_INS.iterdir()) for each in yaml.safe_load_all(path.read_text())]
    until(
        lambda: all(is_true(api.refresh(each) or {}, "Established") and _is_served(api, each) for each in made),
        seconds=60,
        what="the kinds of cert-manager and OpenShift",
    )


def _is_served(api: Api, definition: Object) -> bool:
    """Return whether clients find a kind: that is a moment later than it is established."""
    group, names = definition["spec"]["group"], definition["spec"]["names"]
    versions = [each["name"] for each in definition["spec"]["versions"] if each["served"]]
    try:
        groups = {each["name"] for each in api.request("GET", "/apis")["groups"]}
        lists = [api.request("GET", f"/apis/{group}/{version}")["resources"] for version in versions]
    except ApiError:
        return False
    return group in groups and all(names["kind"] in {each["kind"] for each in found} for found in lists)
