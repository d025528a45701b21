"""docs/pod-changes.md names every field that dravirt changes, and no other."""

import re

import pytest
from support.admission import APPEND, PLACEHOLDER, create, launcher_pod, update, vm, vmi
from support.examples import FOLDERS, ROOT, Example
from support.markdown import codes, rows, section

from dra.contract import (
    INJECTED_ANNOTATION,
    PLACEHOLDER_ENV,
    PLACEHOLDER_RESOURCE,
    SIDECAR_CONTAINER,
    SOCKET_DIR,
    SOCKET_VOLUME,
    STATE_VOLUME,
)
from dra.intent import Mode
from webhook import pod as pods
from webhook import vm as vms
from webhook import vmi as vmis
from webhook.config import Config, SidecarConfig
from webhook.decision import Decision

PAGE = ROOT / "docs" / "pod-changes.md"
WITH_SECRET = SidecarConfig(image_pull_secrets=("registry",))


def documented(heading: str) -> list[str]:
    return [codes(row[0])[0] for row in rows(section(PAGE, heading))]


def changed(decision: Decision) -> set[str]:
    """The fields that a patch changes, as the page spells them."""
    assert decision.patch, decision.reason
    return {field for operation in decision.patch for field in _fields(operation)}


def _fields(operation: dict) -> list[str]:
    path = operation["path"].removeprefix("/")
    if path.endswith("annotations"):  # a mapping that was missing comes with what it holds
        return [_spelt(f"{path}/{key.replace('/', '~1')}") for key in operation["value"]]
    made = operation.get("value") in ({}, [])  # a list or mapping that was missing
    return [] if made else [_spelt(path)]


def _spelt(path: str) -> str:
    path = path.replace("spec/containers/0/", "spec/containers[compute]/")
    path = re.sub(r"/(-|0)$", "", path)  # an item of a list
    path = re.sub(r"/(command|args)/\d+$", r"/\1", path)
    path = re.sub(r"/([^/]*~1[^/]*)$", r"[\1]", path)  # a key that is no plain name
    return path.replace("/", ".").replace("~1", "/")


def appended(pod: dict) -> dict:
    pod["spec"]["containers"][0]["resources"]["limits"]["memory"] = "10Gi"
    return pod


def test_every_field_of_a_pod_that_changes_is_documented():
    placeholder, append = Config(sidecar=WITH_SECRET), Config(mode=Mode.APPEND)
    decisions = [pods.decide(create(Example(folder).pod()), placeholder) for folder in FOLDERS]
    decisions.append(pods.decide(create(appended(launcher_pod(placeholders=None))), append))
    fields = set().union(*map(changed, decisions))
    assert sorted(fields) == sorted(documented("## The pod"))


def test_a_pod_that_only_binds_storage_changes_as_documented():
    pod = launcher_pod()
    pod["metadata"]["annotations"]["kubevirt.io/ephemeral-provisioning"] = "true"
    pod["spec"]["containers"][0]["command"] = ["/bin/bash", "-c", "echo", "bound PVCs"]
    assert changed(pods.decide(create(pod), PLACEHOLDER)) == {
        "spec.resourceClaims",
        f"spec.containers[compute].resources.limits[{PLACEHOLDER_RESOURCE}]",
        f"spec.containers[compute].resources.requests[{PLACEHOLDER_RESOURCE}]",
        f"metadata.annotations[{INJECTED_ANNOTATION}]",
    }


@pytest.mark.parametrize(
    "decision",
    [
        pytest.param(vms.decide(create(vm(metadata="a100")), PLACEHOLDER), id="set"),
        pytest.param(vms.decide(update(vm(), vm(metadata="a100")), PLACEHOLDER), id="added"),
    ],
)
def test_every_field_of_a_vm_that_changes_is_documented(decision):
    assert sorted(changed(decision)) == sorted(documented("## The VM"))


def test_a_vm_with_the_annotation_on_its_template_is_not_changed():
    assert not vms.decide(create(vm(template="a100")), PLACEHOLDER).patch


def test_every_field_of_a_vmi_that_changes_is_documented():
    assert sorted(changed(vmis.decide(create(vmi()), PLACEHOLDER))) == documented("## The VMI")
    assert not vmis.decide(create(vmi()), APPEND).patch


def test_names_that_others_script_against_are_those_of_the_contract():
    text = section(PAGE, "## The pod")
    for name in (SIDECAR_CONTAINER, STATE_VOLUME, SOCKET_VOLUME, SOCKET_DIR, PLACEHOLDER_ENV):
        assert f"`{name}`" in text
