"""Print the packages of the images, each with the newest version that pyproject.toml allows: `make constraints`."""

import json
import subprocess
import sys
import tomllib

from release.manifests import TREE


def main() -> int:
    """Ask pip what it would install, and print it as a constraints file."""
    project = tomllib.loads((TREE / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [f"{TREE}[webhook]", *project["build-system"]["requires"]]
    pip = ["-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-", *wanted]
    report = subprocess.run([sys.executable, *pip], stdout=subprocess.PIPE, check=True).stdout
    found = {each["metadata"]["name"]: each["metadata"]["version"] for each in json.loads(report)["install"]}
    for name in sorted(found, key=str.lower):
        if name != project["project"]["name"]:
            print(f"{name}=={found[name]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
