"""The images on the node: a pause image, the launcher stand-in, and dravirt's own."""

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

from cluster.archives import Image, write_archive
from cluster.cache import cache_root, key_of, one_at_a_time
from cluster.host import Missing
from cluster.kubevirt import LAUNCHER_IMAGE
from cluster.progress import step

PAUSE_IMAGE = "registry.example/pause:1"
OTHER_HOOK_IMAGE = "registry.example/other-hook:1"
"""KubeVirt's own sidecar shim with a hook that gives the domain a title."""
WEBHOOK_IMAGE = "registry.example/dravirt-webhook:tree"
SIDECAR_IMAGE = "registry.example/dravirt-hooksidecar:tree"
"""dravirt's own, by their names: `dravirt-<target of the Containerfile>`."""
TREE = Path(__file__).parents[2]
_PACKAGES = ("dra", "webhook", "hooksidecar", "certs", "cli")
_SUITE = "bookworm"
# The first process of a container ignores signals that it has no handler for.
_UNTIL_STOPPED = "#!/bin/sh\ntrap 'exit 0' TERM\nsleep infinity &\nwait\n"
_OTHER_HOOK = """#!/bin/sh
while [ $# -gt 1 ]; do
  [ "$1" = --domain ] && domain=$2
  shift
done
echo "$domain" | sed 's#<os>#<title>other hook</title><os>#'
"""


def launcher_images(programs: Mapping[str, Path], folder: Path) -> list[Path]:
    """Return archives of the pause image, the launcher stand-in and another hook, written to `folder`."""
    pause = Image(PAUSE_IMAGE, {}, {})
    launcher = Image(
        LAUNCHER_IMAGE,
        # virt-controller starts virt-launcher through its monitor, and other containers by these paths.
        {"/usr/bin/virt-launcher-monitor": programs["launcher"]},
        {"/usr/bin/virt-tail": _UNTIL_STOPPED, "/usr/bin/container-disk": "#!/bin/sh\nexit 0\n"},
    )
    other_hook = Image(
        OTHER_HOOK_IMAGE,
        {"/usr/bin/sidecar-shim": programs["sidecar-shim"]},
        {"/usr/bin/onDefineDomain": _OTHER_HOOK},
        entrypoint=("/usr/bin/sidecar-shim",),
        command=(),
    )
    archives = {folder / "pause.tar": pause, folder / "launcher.tar": launcher, folder / "other-hook.tar": other_hook}
    for path, image in archives.items():
        write_archive(image, path)
    return list(archives)


def dravirt_images(architecture: str = "") -> Path:
    """Return the folder of the archives of dravirt's images, built from the working tree. Raises Missing.

    There is one per target of the Containerfile, `webhook.tar` and `hooksidecar.tar`. They are for this machine, or for
    another `architecture`, whose programs run here by emulation.
    """
    base = _base(architecture)
    sources = [path for package in _PACKAGES for path in (TREE / package).rglob("*.py")]
    sources += [path for path in (TREE / "deploy" / "image").iterdir() if path.is_file()]
    sources += [TREE / name for name in ("Containerfile", "pyproject.toml", "README.md", "LICENSE")]
    folder = cache_root() / "images"
    built = folder / f"dravirt-{key_of(sources, base.name)}"
    with one_at_a_time(folder):
        if not built.exists():
            _build_dravirt(base, built, architecture)
            for old in sorted(folder.glob("dravirt-*/"), key=lambda each: each.stat().st_mtime)[:-3]:
                shutil.rmtree(old)
    return built


def layers(archive: Path) -> list[int]:
    """Return the sizes of an image's layers in bytes, as a node unpacks them, the base's first."""
    with tarfile.open(archive) as image:
        manifest = image.extractfile("manifest.json")
        names = json.load(manifest)[0]["Layers"] if manifest else []
        return [image.getmember(name).size for name in names]


def _base(architecture: str = "") -> Path:
    """Return the folder of a Debian with Python, made by debootstrap once."""
    folder = cache_root() / "images"
    path = folder / f"debian-{_SUITE}-{architecture}".removesuffix("-")
    with one_at_a_time(folder):
        if not path.exists():
            unfinished = path.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            packages = "--include=ca-certificates,python3,python3-venv"
            options = ["--variant=minbase", packages, *_for(architecture)]
            _run("a Debian base", "debootstrap", *options, _SUITE, str(unfinished), *_mirror())
            shutil.rmtree(unfinished / "var/cache/apt", ignore_errors=True)
            unfinished.rename(path)
    return path


def _for(architecture: str) -> list[str]:
    """Return the option of debootstrap and buildah for another machine's architecture."""
    return [f"--arch={architecture}"] if architecture else []


def _mirror() -> list[str]:
    mirror = os.environ.get("DRAVIRT_DEBIAN_MIRROR")
    return [mirror] if mirror else []


def image_of(context: Path, name: str, key: str) -> Path:
    """Return the archive of the one image of a folder with a Containerfile, built where the cache lacks it.

    `key` names its content. Raises Missing.
    """
    base, folder = _base(), cache_root() / "images"
    archive = folder / f"{key}.tar"
    with one_at_a_time(folder):
        if not archive.exists():
            unfinished = archive.with_suffix(".unfinished")
            unfinished.unlink(missing_ok=True)
            _build(base, context, name, unfinished)
            unfinished.rename(archive)
    return archive


def _build_dravirt(base: Path, built: Path, architecture: str) -> None:
    unfinished = built.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    for name in (WEBHOOK_IMAGE, SIDECAR_IMAGE):
        target = name.partition("dravirt-")[2].partition(":")[0]
        options = ["--timestamp=0", f"--target={target}"]
        _build(base, TREE, name, unfinished / f"{target}.tar", *options, architecture=architecture)
    unfinished.rename(built)


def _build(base: Path, context: Path, name: str, archive: Path, *arguments: str, architecture: str = "") -> None:
    storage = [f"--root={cache_root()}/buildah", f"--runroot={cache_root()}/buildah-run", "--storage-driver=overlay"]
    buildah = ["buildah", *storage]
    image = f"localhost/debian-python:{base.name.removeprefix('debian-')}"
    if subprocess.run([*buildah, "inspect", image], check=False, capture_output=True).returncode != 0:
        container = _run("a container for the base", *buildah, "from", *_for(architecture), "scratch").strip()
        _run("the base image", *buildah, "copy", "--quiet", container, str(base), "/")
        _run("the base image's commit", *buildah, "commit", "--quiet", "--rm", container, image)
    _run(
        f"the image {name}", *buildah, "bud", "--isolation=chroot", "--layers", *_for(architecture), *arguments,
        f"--build-arg=BASE={image}", *_pip_settings(), f"--tag={name}", str(context),
    )  # fmt: skip
    _run("its archive", *buildah, "push", name, f"docker-archive:{archive}:{name}")


def _pip_settings() -> list[str]:
    """Return what pip needs inside the build where the machine reaches PyPI through a proxy or its own authority."""
    settings = [f"--env={name}={os.environ[name]}" for name in ("PIP_INDEX_URL", "HTTPS_PROXY") if name in os.environ]
    bundle = next((os.environ[name] for name in ("PIP_CERT", "SSL_CERT_FILE") if name in os.environ), None)
    if bundle:
        inside = "/run/build-ca.crt"
        settings += [f"--volume={bundle}:{inside}:ro", f"--env=PIP_CERT={inside}"]
    return settings


def _run(what: str, *command: str) -> str:
    with step(f"making {what}"):
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise Missing(f"`{' '.join(command)}` failed:\n{(done.stderr or done.stdout)[-4000:]}")
    return done.stdout
