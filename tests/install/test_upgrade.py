"""From the release before to this one and back: VMs that run notice nothing, others start."""

from contextlib import contextmanager

import pytest
from cluster import machines, watching
from cluster.handler import attached
from cluster.test_story import allocated, boot  # noqa: F401 (fixtures)

from install import previous
from install.witness import restarts

pytestmark = pytest.mark.install

NEWER_KEYS = {"sidecar": {"image": previous.IMAGE, "color": "green"}, "tenants": {"quota": 3}}
"""Of a configuration that a later release will know."""


@contextmanager
def release_before(installation):
    """The release before, with the configuration of a later one."""
    now = installation.images, installation.patches, installation.config
    installation.images = dict.fromkeys(installation.images, previous.IMAGE)
    installation.patches, installation.config = previous.patches(), NEWER_KEYS
    try:
        yield
    finally:
        installation.images, installation.patches, installation.config = now


def roll(installation, load):
    """Apply what the installation is now, while it is asked all the time."""
    with load() as running:
        installation.apply()
        pods = installation.wait_until_ready()
        running.go_on()
    assert running.failures == []
    return pods


def test_back_and_forth(api, node, installation, witness, load, boot, allocated, namespace):  # noqa: F811, PLR0917
    node.import_image(previous.image())
    api.apply(machines.template(namespace, "vgpu", machines.request("time-sliced")))

    with release_before(installation):
        before = roll(installation, load)
        assert {each["spec"]["containers"][0]["image"] for each in before} == {previous.IMAGE}
        log = node.logs(before[0], "webhook")
        assert "sidecar.color" in log
        assert "tenants" in log
        older, definition = boot(machines.vm(namespace, "older", asks="vgpu"))
        assert sidecar_image(older) == previous.IMAGE
        (first,) = attached(definition).values()
        assert allocated()["gpu"] == [first]
        assert witness.is_untouched()

    after = roll(installation, load)
    assert previous.IMAGE not in {each["spec"]["containers"][0]["image"] for each in after}
    newer, definition = boot(machines.vm(namespace, "newer", asks="vgpu"))
    assert sidecar_image(newer) != previous.IMAGE
    (second,) = attached(definition).values()
    assert sorted(allocated()["gpu"]) == sorted([first, second])
    assert restarts(api.refresh(older)) == 0
    assert api.refresh(older)["spec"] == older["spec"]
    assert watching.running(api, older)
    assert witness.is_untouched()


def sidecar_image(pod):
    return next(each["image"] for each in pod["spec"]["initContainers"] if each["name"] == "dravirt-hook")
