"""The manifests of a release: every overlay as one file, and the images that they name."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from dra.version import __version__

TREE = Path(__file__).parents[1]
IMAGES = ("dravirt-webhook", "dravirt-hooksidecar")


class Unable(Exception):
    """The release cannot be made. The text says what is missing, or what failed."""


def write_manifests(folder: Path, *, registry: str = "", program: str = "") -> None:
    """Write `install-<overlay>.yaml` for every overlay, and `images.txt`. Raises Unable."""
    build = _builder(program)
    images: set[str] = set()
    for overlay in sorted(path for path in (TREE / "deploy" / "overlays").iterdir() if path.is_dir()):
        text = _render(build, overlay, registry)
        head = f"# dravirt {__version__}, overlay {overlay.name}\n"
        (folder / f"install-{overlay.name}.yaml").write_text(head + text, encoding="utf-8")
        images.update(image for item in yaml.safe_load_all(text) for image in images_in(item))
    (folder / "images.txt").write_text("".join(f"{image}\n" for image in sorted(images)), encoding="utf-8")


def images_in(value: Any) -> Iterator[str]:
    """Return every image that stands in an `image:` field of an object."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key == "image" and isinstance(each, str):
                yield each
            else:
                yield from images_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from images_in(each)


def _builder(program: str) -> list[str]:
    """Return the command that renders a kustomization, without its folder."""
    found = shutil.which(program or "kubectl") or (None if program else shutil.which("kustomize"))
    if not found:
        wanted = program or "kubectl or kustomize"
        raise Unable(f"{wanted} is not found, which renders the manifests: install it, or set KUBECTL=/path/of/it")
    return [found, "build"] if Path(found).name.startswith("kustomize") else [found, "kustomize"]


def _render(build: list[str], overlay: Path, registry: str) -> str:
    with tempfile.TemporaryDirectory(prefix="dravirt-release-") as temporary:
        folder = Path(temporary).resolve()
        kustomization: dict[str, Any] = {"resources": [os.path.relpath(overlay, folder)]}
        if registry:
            kustomization["images"] = [
                {"name": name, "newName": f"{registry.rstrip('/')}/{name}", "newTag": __version__} for name in IMAGES
            ]
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization), encoding="utf-8")
        done = subprocess.run([*build, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unable(f"the overlay {overlay.name}: {done.stderr.strip()}")
    return done.stdout
