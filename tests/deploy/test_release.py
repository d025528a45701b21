"""`make release`: what it writes, and that it writes all of it or nothing."""

import hashlib
import subprocess
import sys

import pytest
from support.examples import ROOT

from release.__main__ import publish, write_checksums
from release.manifests import Unable, images_in, write_manifests


def program(folder, name, text):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_without_a_program_to_render_with_it_says_what_to_install(tmp_path):
    with pytest.raises(Unable, match=r"/nowhere/kubectl is not found, .*: install it, or set KUBECTL="):
        write_manifests(tmp_path, program="/nowhere/kubectl")


def test_what_that_program_says_is_told_with_the_overlay(tmp_path):
    broken = program(tmp_path, "kubectl", 'echo "no such patch" >&2; exit 1')

    with pytest.raises(Unable, match="the overlay cert-manager: no such patch"):
        write_manifests(tmp_path, program=str(broken))


@pytest.mark.parametrize(("name", "word"), [("kubectl", "kustomize"), ("kustomize", "build")])
def test_kubectl_and_kustomize_are_both_taken(tmp_path, name, word):
    (tmp_path / "out").mkdir()
    given = program(tmp_path, name, f'[ "$1" = {word} ] && cat "$2/kustomization.yaml" && echo "image: r/i:1"')

    write_manifests(tmp_path / "out", registry="r.example/gpu/", program=str(given))

    overlays = {path.name for path in (ROOT / "deploy" / "overlays").iterdir()}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "images.txt",
        *(f"install-{overlay}.yaml" for overlay in overlays),
    }
    assert (tmp_path / "out" / "images.txt").read_text() == "r/i:1\n"
    assert "newName: r.example/gpu/dravirt-hooksidecar" in (tmp_path / "out" / "install-openshift.yaml").read_text()


def test_a_release_that_fails_leaves_what_was_there(tmp_path):
    broken = program(tmp_path, "kubectl", "exit 1")
    out = tmp_path / "dist"
    out.mkdir()
    (out / "images.txt").write_text("of before\n")

    command = [sys.executable, "-m", "release", "--out", str(out), "--kubectl", str(broken)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "make release: the overlay " in done.stderr
    assert "Traceback" not in done.stderr
    assert {path.name: path.read_text() for path in out.iterdir()} == {"images.txt": "of before\n"}


def test_images_are_found_wherever_a_pod_is(tmp_path):
    pod = {"initContainers": [{"image": "r/a:1"}], "containers": [{"image": "r/b@sha256:0"}, {"name": "image"}]}

    assert list(images_in({"spec": {"template": {"spec": pod}}, "image": {"image": "r/c"}})) == [
        "r/a:1",
        "r/b@sha256:0",
        "r/c",
    ]


def test_checksums_are_those_that_sha256sum_checks(tmp_path):
    folder, out = tmp_path / "made", tmp_path / "dist"
    folder.mkdir()
    (folder / "images.txt").write_text("r/i:1\n")
    write_checksums(folder)
    publish(folder, out)

    assert (out / "SHA256SUMS").read_text() == f"{hashlib.sha256(b'r/i:1' + bytes([10])).hexdigest()}  images.txt\n"
    checked = subprocess.run(
        ["sha256sum", "--check", "SHA256SUMS"], cwd=out, capture_output=True, text=True, check=False
    )
    assert checked.stdout == "images.txt: OK\n"
    assert sorted(path.name for path in out.iterdir()) == ["SHA256SUMS", "images.txt"]
