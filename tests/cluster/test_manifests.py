"""Every overlay, component and sample is taken by the API server as it stands, and by Pod Security `restricted`."""

import re
from pathlib import Path

import pytest
import yaml

from cluster import manifests
from cluster.api import ApiError
from cluster.images import TREE

pytestmark = pytest.mark.cluster
NAMESPACE = "dravirt-manifests"


@pytest.fixture(scope="module")
def api_of_all(stack, api):
    """An API server that has all kinds, and a namespace with what pods need in it."""
    _ = stack.kubevirt
    manifests.stand_in_for_operators(api)
    for name in (NAMESPACE, "openshift-cnv"):
        api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return api


def installation(folder: Path, overlay: str, *components: str):
    """The objects of an overlay, in a namespace that the other suites do not use."""
    above = manifests.DEPLOY / "overlays" / overlay
    return manifests.render(manifests.user_kustomization(folder, above, components, {"namespace": NAMESPACE}))


def apply_dry(api, item):
    """Ask for an object without having it made, and return what the API server warns of."""
    api.apply(item, dry_run=True)
    return list(api.warnings)


@pytest.mark.parametrize("overlay", manifests.OVERLAYS)
def test_the_api_server_takes_every_object_of_an_overlay(api_of_all, tmp_path, overlay):
    for components in ((), manifests.COMPONENTS):
        folder = tmp_path / str(len(components))
        for item in installation(folder, overlay, *components):
            assert apply_dry(api_of_all, item) == [], item


def shown_in_the_docs():
    """The kustomizations that docs/install.md tells an administrator to write."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", (TREE / "docs" / "install.md").read_text(), re.DOTALL | re.MULTILINE)
    return [block for block in blocks if "kind: Kustomization" in block]


@pytest.mark.parametrize("text", shown_in_the_docs())
def test_the_api_server_takes_what_a_user_writes_by_the_docs(api_of_all, tmp_path, text):
    (tmp_path / "dravirt").symlink_to(TREE)
    (tmp_path / "kustomization.yaml").write_text(text)
    objects = manifests.render(tmp_path)
    name = manifests.find(objects, "Namespace")["metadata"]["name"]
    api_of_all.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    for item in objects:
        assert apply_dry(api_of_all, item) == [], item
    assert manifests.configuration(objects, tmp_path / "config")


@pytest.mark.parametrize("overlay", manifests.OVERLAYS)
def test_kubectl_applies_an_overlay_under_other_names(stack, api_of_all, tmp_path, overlay):
    """As a user does: by client-side apply, whose checks are kubectl's own."""
    above = manifests.DEPLOY / "overlays" / overlay
    more = {"namespace": NAMESPACE, "namePrefix": "acme-"}
    folder = manifests.user_kustomization(tmp_path / "user", above, manifests.COMPONENTS, more)

    said = manifests.kubectl(
        "apply", "--dry-run=server", "-k", str(folder), kubeconfig=stack.control_plane.kubeconfig()
    )

    objects = manifests.render(folder)
    assert len(said.splitlines()) == len(objects)
    assert "validatingadmissionpolicy.admissionregistration.k8s.io/acme-dravirt-injected-pods created" in said


@pytest.mark.parametrize("path", sorted((manifests.DEPLOY / "samples").iterdir()), ids=lambda path: path.stem)
def test_the_api_server_takes_every_object_of_a_sample(api_of_all, path):
    for item in yaml.safe_load_all(path.read_text()):
        placed = {"namespace": NAMESPACE, **item["metadata"]}
        assert apply_dry(api_of_all, {**item, "metadata": placed}) == [], item


@pytest.mark.parametrize("overlay", manifests.OVERLAYS)
def test_the_pods_of_an_overlay_fit_into_its_namespace(api_of_all, tmp_path, overlay):
    api = api_of_all
    objects = installation(tmp_path / "user", overlay)
    api.apply(manifests.find(objects, "Namespace"))
    account = api.apply(manifests.find(objects, "ServiceAccount"))
    template = manifests.find(objects, "Deployment")["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"] = {**pod["metadata"], "name": "webhook", "namespace": NAMESPACE}

    assert apply_dry(api, pod) == []
    assert account["automountServiceAccountToken"] is False

    pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"] = False
    del pod["spec"]["containers"][0]["securityContext"]["capabilities"]
    with pytest.raises(ApiError, match='violates PodSecurity "restricted'):
        api.apply(pod, dry_run=True)
