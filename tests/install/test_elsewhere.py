"""Other names, as docs/install.md shows them: another namespace, a prefix, and KubeVirt in a namespace of its own."""

import re

import pytest
import yaml
from cluster import handler, kubevirt, machines, programs, watching
from cluster.controlplane import KUBEVIRT_ELSEWHERE, KUBEVIRT_HANDLER, elsewhere
from cluster.handler import attached
from cluster.images import TREE
from cluster.process import until
from cluster.test_story import allocated, boot  # noqa: F401 (fixtures)

from install.conftest import IMAGES
from install.installation import SECRET, Installation

pytestmark = pytest.mark.install

PAGE = (TREE / "docs" / "install.md").read_text()


def shown(heading):
    """The kustomization that the page shows below a heading."""
    text = PAGE.split(f"\n## {heading}\n")[1]
    return yaml.safe_load(re.search(r"```yaml\n(.*?)```", text, re.DOTALL)[1])


@pytest.fixture(scope="module")
def dravirt(cluster, kubectl):
    """dravirt by other names, beside KubeVirt in another namespace."""
    built = programs.build(programs.KUBEVIRT)
    kubevirt.move(cluster.kubevirt, cluster.processes, built, cluster.control_plane)
    cluster.keep(handler.end_vmis, elsewhere(KUBEVIRT_HANDLER))
    names = shown("Another namespace, other names")
    installed = Installation(
        cluster.api,
        kubectl,
        cluster.state / "elsewhere",
        images=IMAGES,
        namespace=names["namespace"],
        prefix=names["namePrefix"],
        patches=shown("KubeVirt in another namespace")["patches"],
    )
    installed.apply()
    installed.wait_until_ready()
    yield installed
    installed.delete()


def test_it_works_by_other_names(api, dravirt, boot, allocated, namespace):  # noqa: F811
    assert (dravirt.namespace, dravirt.name("x"), KUBEVIRT_ELSEWHERE) == ("gpu-system", "acme-x", "virtualization")
    api.apply(machines.template(namespace, "vgpu", machines.request("time-sliced")))

    pod, definition = boot(machines.vm(namespace, asks="vgpu"))

    assert list(attached(definition).values()) == allocated()["gpu"]
    assert watching.running(api, pod)


def test_its_certificate_is_made_anew_by_other_names(dravirt):
    before = dravirt.secret()["ca.crt"]
    dravirt.kubectl("-n", dravirt.namespace, "delete", "secret", dravirt.name(SECRET), "--wait=false")

    def is_anew():
        now = dravirt.secret().get("ca.crt")
        return now not in {None, before} and set(dravirt.bundles()) == {now}

    until(is_anew, seconds=90, what="another authority in the Secret and in every webhook")
