"""What is skipped in a review changes no decision: each is the one about the whole object."""

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs
from support.admission import APPEND, DEVICES, PLACEHOLDER, compute_of, create, launcher_pod, patched, vm, vmi
from support.corpus import Case, corpus_cases, live_reviews
from support.mutation import anything, broken
from support.reviews import review

from dra.errors import Refused
from webhook import pod
from webhook.admission import HANDLERS, Handler
from webhook.config import SidecarConfig
from webhook.review import read_review

CONFIGS = (replace(PLACEHOLDER, sidecar=SidecarConfig(image_pull_secrets=("registry",))), APPEND)
SOCKETS = "hook-sidecar-sockets"
DIRECT = "[{name: gpu0, resourceClaimName: c}]"
MOUNT = {"name": SOCKETS, "mountPath": "/var/run/kubevirt-hooks"}


def pod_with(**spec: object) -> dict:
    item = launcher_pod()
    compute_of(item)["volumeMounts"].append(MOUNT)
    item["spec"]["volumes"].append({"name": SOCKETS, "emptyDir": {}})
    item["spec"] |= {"imagePullSecrets": [{"name": "registry"}], **spec}
    return item


def injected(devices: str = "a100-1-10c") -> dict:
    return patched(item := launcher_pod(devices), pod.decide(create(item), PLACEHOLDER))


def with_args() -> dict:
    item = pod_with(resourceClaims=[{"name": "dravirt-gpu0", "resourceClaimName": "a"}])
    compute_of(item)["args"] = compute_of(item).pop("command")
    return item


def provisioning() -> dict:
    item = launcher_pod()
    item["metadata"]["annotations"]["kubevirt.io/ephemeral-provisioning"] = "true"
    del compute_of(item)["command"]
    return item


def steered() -> dict:
    return patched(item := provisioning(), pod.decide(create(item), PLACEHOLDER))


def target() -> dict:
    item = launcher_pod(placeholders=None)
    item["metadata"]["labels"]["kubevirt.io/migrationJobUID"] = "b3a1cf6e"
    return item


def running(**metadata: object) -> dict:
    item = vm("a", gpus=[{"name": "gpu0", "deviceName": "dravirt.io/gpu"}])
    item["metadata"] |= metadata
    item["spec"]["template"]["spec"]["evictionStrategy"] = "LiveMigrate"
    return item | {"status": {"created": True}}


OBJECTS = {
    "Pod": [launcher_pod(), pod_with(), with_args(), injected(), injected(DIRECT), provisioning(), steered(), target()],
    "VirtualMachine": [vm("a"), vm("a", "b"), running(), running(deletionTimestamp="2026-01-01T00:00:00Z")],
    "VirtualMachineInstance": [vmi(), vmi(gpus=[{"name": "gpu0"}]), vmi(None)],
}
SUBJECTS = [
    pytest.param(handler, item, id=f"{path}-{index}")
    for path, handler in HANDLERS.items()
    for index, item in enumerate(OBJECTS[handler.kind])
]


def assert_same_decision(handler: Handler, item: object, old: object = None, operation: str = "CREATE") -> None:
    kind = {"group": handler.group, "version": "v1", "kind": handler.kind}
    body = json.dumps(review(item, kind, oldObject=old, operation=operation)).encode()
    request = read_review(body, group=handler.group, kind=handler.kind)
    whole = structs.replace(request, object=json.loads(body)["request"]["object"], old_object=old)
    for config in CONFIGS:
        assert handler.decide(request, config) == handler.decide(whole, config)


def places(item: object) -> Iterator[tuple[object, ...]]:
    """Yield the path of each value in `item`."""
    keys = item if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else ()
    for key in keys:
        yield (key,)
        yield from ((key, *path) for path in places(item[key]))


def without(item: dict, path: tuple) -> dict:
    item = copy.deepcopy(item)
    parent = item
    for key in path[:-1]:
        parent = parent[key]
    del parent[path[-1]]
    return item


def with_value(item: dict, path: tuple, value: object) -> dict:
    item = copy.deepcopy(item)
    parent = item
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return item


VALUES = (None, [], {}, "x", 5, True, ["x"], [{}], {"x": {}}, [[]])


@pytest.mark.parametrize(("handler", "item"), SUBJECTS)
def test_an_object_that_lacks_any_of_its_fields_or_has_another_value_there_is_decided_about_as_a_whole(handler, item):
    assert_same_decision(handler, item)
    for path in places(item):
        assert_same_decision(handler, without(item, path))
        for value in VALUES:
            assert_same_decision(handler, with_value(item, path, value))


def objects_of(handler: Handler) -> st.SearchStrategy:
    return st.sampled_from(OBJECTS[handler.kind]).flatmap(broken) | st.dictionaries(st.text(max_size=4), anything)


@settings(max_examples=300, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), operation=st.sampled_from(["CREATE", "UPDATE"]), path=st.sampled_from(list(HANDLERS)))
def test_an_object_of_any_shape_is_decided_about_as_a_whole(data: st.DataObject, operation: str, path: str):
    objects = objects_of(HANDLERS[path])
    old = data.draw(st.none() | objects) if operation == "UPDATE" else None
    with suppress(Refused):  # (a number that no JSON has)
        assert_same_decision(HANDLERS[path], data.draw(objects), old, operation)


@pytest.mark.parametrize("file", live_reviews())
def test_a_live_review_is_decided_about_as_a_whole(file: Path):
    request = json.loads(file.read_bytes())["request"]
    for handler in HANDLERS.values():
        if handler.kind == request["kind"]["kind"]:
            assert_same_decision(handler, request["object"], request["oldObject"], request["operation"])


@pytest.mark.parametrize("case", corpus_cases("pods"))
def test_a_pod_of_kubevirt_is_decided_about_as_a_whole(case: Case):
    for path in ("/mutate/pod", "/validate/pod"):
        assert_same_decision(HANDLERS[path], case.pod())


def test_what_is_never_read_is_not_decoded():
    item = launcher_pod() | {"status": {"phase": "Pending"}}
    item["metadata"]["managedFields"] = [{"manager": "virt-controller", "fieldsV1": {"f:metadata": {}}}]

    request = read_review(json.dumps(review(item)).encode(), group="", kind="Pod")

    assert request.object.keys() == {"metadata", "spec"}
    assert "managedFields" not in request.object["metadata"]
    assert request.object["metadata"]["annotations"][DEVICES] == "a100-1-10c"
