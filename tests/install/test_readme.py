"""The README's way in and out, word for word, in a folder beside a clone."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cluster.controlplane import ADMIN
from cluster.images import TREE

from install.conftest import IMAGES

pytestmark = pytest.mark.install

SECTION = (TREE / "README.md").read_text().split("\n## Install\n")[1].split("\n## ")[0]
BUILDS, KUSTOMIZATION, COMMANDS = re.findall(r"^```\w*\n(.*?)^```$", SECTION, re.DOTALL | re.MULTILINE)


@pytest.fixture
def shell(cluster, kubectl, tmp_path):
    """Run a command in the user's folder, and return what it prints and its exit code."""
    (tmp_path / "dravirt").symlink_to(TREE)
    (tmp_path / "kustomization.yaml").write_text(KUSTOMIZATION)
    programs = [kubectl.program.parent, Path(sys.executable).parent]
    path = os.pathsep.join([*map(str, programs), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(cluster.control_plane.kubeconfig(ADMIN))}

    def _shell(command):
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr, done.returncode

    yield _shell
    _shell("kubectl delete -k . --ignore-not-found")


def test_install_look_and_uninstall_as_written(api, node, shell):
    # In the place of `podman build` and a registry: the same images by the names that are built there.
    for name, built in re.findall(r"--target (\S+)\s+-t (\S+)", BUILDS):
        node.tag_image(IMAGES[f"dravirt-{name}"], built)
    install, wait, doctor = COMMANDS.splitlines()

    assert shell(install)[1] == 0
    said, code = shell(wait)
    assert (code, "successfully rolled out" in said) == (0, True)
    said, code = shell(doctor)
    # (no driver of a known kind keeps mediated devices here: a warning; of the installation it finds nothing)
    assert code == 0, said
    (removal,) = re.findall(r"`(kubectl delete [^`]*)`", SECTION)
    assert shell("dravirt doctor --before-uninstall")[1] in {0, 1}
    assert shell(removal)[1] == 0
    assert api.get("v1", "Namespace", "dravirt-system") is None
