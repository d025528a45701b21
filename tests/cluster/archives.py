"""Container images made by script: a docker archive with one layer. Source: the OCI image specification."""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

BUSYBOX = Path("/bin/busybox")
SHELL_COMMANDS = (
    "cat",
    "chmod",
    "cp",
    "date",
    "echo",
    "env",
    "id",
    "ls",
    "mkdir",
    "sed",
    "sh",
    "sleep",
    "stat",
    "tail",
    "test",
    "true",
)


@dataclass(frozen=True, slots=True)
class Image:
    """An image: its name, its programs by their path, and scripts by theirs. Each has a busybox and a shell."""

    name: str
    programs: Mapping[str, Path]
    scripts: Mapping[str, str]
    command: Sequence[str] = ("sleep", "infinity")
    entrypoint: Sequence[str] = ()


def write_archive(image: Image, path: Path) -> None:
    """Write the image as a docker archive, which `ctr images import` takes."""
    layer = _layer(image)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "Entrypoint": list(image.entrypoint),
                "Cmd": list(image.command),
                "Env": ["PATH=/usr/bin:/bin"],
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    ).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [image.name], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(path, "w") as archive:
        for name, content in (("config.json", config), ("layer.tar", layer), ("manifest.json", manifest)):
            _add(archive, name, content)


def _layer(image: Image) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for folder in ("bin", "etc", "tmp", "usr", "usr/bin", "var", "var/run"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            layer.addfile(entry)
        _add(layer, "etc/passwd", b"root:x:0:0::/:/bin/sh\nqemu:x:107:107::/:/bin/sh\n", mode=0o644)
        _add(layer, "bin/busybox", BUSYBOX.read_bytes())
        for command in SHELL_COMMANDS:
            link = tarfile.TarInfo(f"usr/bin/{command}")
            link.type, link.linkname = tarfile.SYMTYPE, "/bin/busybox"
            layer.addfile(link)
        shell = tarfile.TarInfo("bin/sh")
        shell.type, shell.linkname = tarfile.SYMTYPE, "/bin/busybox"
        layer.addfile(shell)
        _add(layer, "bin/bash", b'#!/bin/sh\nexec /bin/sh "$@"\n')  # busybox does not go by that name
        for target, program in image.programs.items():
            _add(layer, target.lstrip("/"), program.read_bytes())
        for target, script in image.scripts.items():
            _add(layer, target.lstrip("/"), script.encode())
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o755) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
