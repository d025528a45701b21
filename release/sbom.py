"""The packages in an image, with versions and licenses, as CycloneDX: what pip installs by the pins of the image.

What the base image brings is not in it: whoever publishes that has its list.
"""

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from dra.version import __version__
from release.manifests import TREE, Unable

TARGETS = {"hooksidecar": "", "webhook": "[webhook]"}
"""By target of the Containerfile: the extras that its packages come with."""


def write_sboms(folder: Path) -> None:
    """Write `sbom-<target>.json` for each image. Raises Unable."""
    for target, extras in TARGETS.items():
        with tempfile.TemporaryDirectory(prefix="dravirt-release-") as temporary:
            environment = Path(temporary)
            venv.create(environment, with_pip=False, symlinks=True)
            python = str(environment / "bin" / "python")
            pip = ["-m", "pip", "--python", python, "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
            pins = ["--constraint", str(TREE / "deploy" / "image" / "constraints.txt")]
            _run(target, *pip, *pins, f"{TREE}{extras}")
            about = ["--pyproject", str(TREE / "pyproject.toml"), "--mc-type", "application", "--output-reproducible"]
            file = folder / f"sbom-{target}.json"
            _run(target, "-m", "cyclonedx_py", "environment", *about, "--output-file", str(file), python)
        _name(file, target)


def _name(file: Path, target: str) -> None:
    """Let the list say which image of which release it is of: the project itself takes its version from the code."""
    listed = json.loads(file.read_text(encoding="utf-8"))
    if not listed.get("components"):
        raise Unable(f"the packages of {target}: none were found")
    listed["metadata"]["component"] |= {"name": f"dravirt-{target}", "version": __version__}
    file.write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")


def _run(target: str, *arguments: str) -> None:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unable(f"the packages of {target}: {(done.stderr or done.stdout).strip()[-2000:]}")
