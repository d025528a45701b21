"""What fills /opt/dravirt while an image is built: see the Containerfile.

build.py dependencies [EXTRA...]    what pyproject.toml names, for the sidecar and for each extra
build.py code                       dravirt itself, and what makes the image small and the same each time
"""

import compileall
import os
import py_compile
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

TARGET = Path("/opt/dravirt")
PIP = ("/opt/tools/bin/pip", "--python", f"{TARGET}/bin/python3", "install", "--no-compile")


def dependencies(extras: list[str]) -> None:
    """Install what dravirt depends on."""
    project = tomllib.loads(Path("/src/pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(each for extra in extras for each in project["optional-dependencies"][extra])]
    subprocess.run([*PIP, *wanted], check=True)


def code() -> None:
    """Install dravirt and finish the folder."""
    subprocess.run([*PIP, "--no-deps", *map(str, Path("/wheels").glob("*.whl"))], check=True)
    (packages,) = TARGET.glob("lib/python3*/site-packages")
    _strip_kubernetes(packages / "kubernetes")
    # Compiled here, since the root of a pod is read-only; by the content of the source, not by its date, and not
    # checked at run time, since the source does not change there.
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    if not compileall.compile_dir(packages, quiet=1, force=True, invalidation_mode=unchecked):
        sys.exit("a module cannot be compiled")
    date = int(os.environ["SOURCE_DATE_EPOCH"])
    for path in (TARGET, *TARGET.rglob("*")):
        os.utime(path, (date, date), follow_symlinks=False)


def _strip_kubernetes(client: Path) -> None:
    """Remove 125 of the Kubernetes client's 126 MB: a module per kind and API group, which are loaded when asked for.

    dravirt sends requests of its own through the client's transport, and asks for none of them.
    """
    shutil.rmtree(client / "aio", ignore_errors=True)
    for generated in ("api", "models"):
        for module in (client / "client" / generated).glob("*.py"):
            if module.name != "__init__.py":
                module.unlink()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["dependencies", *extras]:
            dependencies(extras)
        case ["code"]:
            code()
        case _:
            sys.exit(__doc__)
