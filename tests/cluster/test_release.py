"""The manifests of a release are those of the tree, with the images where the administrator has them."""

import pytest
import yaml

from cluster import manifests, programs
from dra.version import __version__
from release.manifests import write_manifests

pytestmark = pytest.mark.cluster


def test_each_overlay_is_one_file_with_its_images_named(tmp_path):
    kubectl = programs.build(programs.CONTROL_PLANE)["kubectl"]
    write_manifests(tmp_path, registry="registry.example.com/gpu", program=str(kubectl))

    images = {f"registry.example.com/gpu/dravirt-{target}:{__version__}" for target in ("webhook", "hooksidecar")}
    assert set((tmp_path / "images.txt").read_text().splitlines()) == images
    for overlay in manifests.OVERLAYS:
        written = list(yaml.safe_load_all((tmp_path / f"install-{overlay}.yaml").read_text()))
        images_before = {"dravirt-webhook", "dravirt-hooksidecar"}
        above = manifests.DEPLOY / "overlays" / overlay
        more = {
            "images": [
                {"name": each, "newName": f"registry.example.com/gpu/{each}", "newTag": __version__}
                for each in sorted(images_before)
            ]
        }
        assert written == manifests.render(manifests.user_kustomization(tmp_path / overlay, above, (), more))
