"""Write what a release consists of: manifests, the images in them, lists of their packages, and checksums.

  install-<overlay>.yaml   one for each folder of deploy/overlays
  images.txt               the images in these, for a mirror
  sbom-<image>.json        the packages in each image, CycloneDX
  SHA256SUMS               of all of these

Either all of it is written or nothing. It takes kubectl or kustomize, and for the lists the package index.

examples:
  python -m release
  python -m release --registry registry.example.com/gpu --kubectl ~/bin/kubectl
"""

import argparse
import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

from release.manifests import Unable, write_manifests
from release.sbom import write_sboms


def main() -> int:
    """Write a release and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("dist"), help="(default: %(default)s)")
    parser.add_argument("--registry", metavar="PREFIX", default="", help="where the images are (default: nowhere said)")
    parser.add_argument("--kubectl", metavar="FILE", default="", help="kubectl or kustomize (default: the one in PATH)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dravirt-release-") as temporary:
        folder = Path(temporary)
        try:
            write_manifests(folder, registry=args.registry, program=args.kubectl)
            write_sboms(folder)
        except Unable as error:
            print(f"make release: {error}", file=sys.stderr)
            return 1
        write_checksums(folder)
        publish(folder, args.out)
    return 0


def write_checksums(folder: Path) -> None:
    """Write the checksums of all files in `folder`, as `sha256sum --check` reads them."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(folder.iterdir())]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def publish(folder: Path, out: Path) -> None:
    """Move the finished files to `out`; other files there stay."""
    out.mkdir(parents=True, exist_ok=True)
    for path in sorted(folder.iterdir()):
        # Copied beside its place first: it may come from another file system, from where nothing can be renamed.
        unfinished = out / f".{path.name}.unfinished"
        shutil.copyfile(path, unfinished)
        unfinished.rename(out / path.name)
        print(out / path.name)


if __name__ == "__main__":
    sys.exit(main())
