"""The objects of the examples have the shape that the API server takes: no field too many, none of another version."""

import pytest
from support.examples import FOLDERS, Example
from support.schema import Anything, misfits

# k8s.io/api/resource/v1 types.go, as far as examples go.
ATTRIBUTE = {"string": str, "int": int, "bool": bool, "version": str}
OPAQUE = {"driver!": str, "parameters!": {"apiVersion!": str, "kind!": str, "*": Anything}}
METADATA = {
    "name!": str,
    "generateName": str,
    "namespace": str,
    "uid": str,
    "annotations": {"*": str},
    "finalizers": [str],
    "ownerReferences": [
        {"apiVersion!": str, "kind!": str, "name!": str, "uid!": str, "controller": bool, "blockOwnerDeletion": bool}
    ],
}
CLAIM_SPEC = {
    "devices!": {
        "requests!": [
            {
                "name!": str,
                "exactly!": {
                    "deviceClassName!": str,
                    "allocationMode": str,
                    "count": int,
                    "selectors": [{"cel!": {"expression!": str}}],
                },
            }
        ],
        "constraints": [{"requests": [str], "matchAttribute!": str}],
        "config": [{"requests": [str], "opaque!": OPAQUE}],
    }
}
TEMPLATE = {"apiVersion!": str, "kind!": str, "metadata!": METADATA, "spec!": {"spec!": CLAIM_SPEC}}
CLAIM = {
    "apiVersion!": str,
    "kind!": str,
    "metadata!": METADATA,
    "spec!": CLAIM_SPEC,
    "status!": {
        "allocation!": {
            "allocationTimestamp": str,
            "devices!": {
                "results!": [{"request!": str, "driver!": str, "pool!": str, "device!": str}],
                "config": [{"source!": str, "requests": [str], "opaque!": OPAQUE}],
            },
            "nodeSelector!": {
                "nodeSelectorTerms!": [{"matchFields!": [{"key!": str, "operator!": str, "values!": [str]}]}]
            },
        },
        "reservedFor!": [{"resource!": str, "name!": str, "uid!": str}],
    },
}
SLICE = {
    "apiVersion!": str,
    "kind!": str,
    "metadata!": METADATA,
    "spec!": {
        "driver!": str,
        "nodeName!": str,
        "pool!": {"name!": str, "generation!": int, "resourceSliceCount!": int},
        "devices!": [{"name!": str, "attributes!": {"*": ATTRIBUTE}, "capacity": {"*": {"value!": str}}}],
    },
}

_MAX_ATTRIBUTE = 64

pytestmark = pytest.mark.parametrize("example", [pytest.param(Example(folder), id=folder.name) for folder in FOLDERS])


@pytest.mark.parametrize(
    ("name", "kind", "schema"),
    [
        pytest.param("resourceclaimtemplates", "ResourceClaimTemplate", TEMPLATE, id="templates"),
        pytest.param("resourceclaims", "ResourceClaim", CLAIM, id="claims"),
        pytest.param("resourceslices", "ResourceSlice", SLICE, id="slices"),
    ],
)
def test_dr01_objects_are_valid_resource_v1(example, name, kind, schema):
    for each in example.objects(name):
        assert (each["apiVersion"], each["kind"]) == ("resource.k8s.io/v1", kind)
        assert misfits(each, schema) == []


def test_an_attribute_has_one_value_of_at_most_64_characters(example):
    for slice_ in example.objects("resourceslices"):
        for device in slice_["spec"]["devices"]:
            for typed in device["attributes"].values():
                assert len(typed) == 1
                assert len(str(next(iter(typed.values())))) <= _MAX_ATTRIBUTE


def test_wh30_the_annotation_stands_on_the_template(example):
    vm = example.vm()
    assert vm["spec"]["template"]["metadata"]["annotations"]["dravirt.io/devices"]
    assert "annotations" not in vm["metadata"]


def test_the_pod_is_one_that_kubevirt_makes(example):
    pod, vm = example.pod(), example.vm()
    owner = pod["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == (
        "VirtualMachineInstance",
        vm["metadata"]["name"],
        True,
    )
    assert pod["metadata"]["labels"]["kubevirt.io/created-by"] == owner["uid"]
    assert pod["metadata"]["generateName"] == f"virt-launcher-{vm['metadata']['name']}-"
    assert pod["metadata"]["namespace"] == vm["metadata"]["namespace"]
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    for container in pod["spec"]["containers"] + pod["spec"].get("initContainers", []):
        uses = container.get("volumeMounts", []) + container.get("volumeDevices", [])
        assert {use["name"] for use in uses} <= volumes


def test_the_vm_gives_the_pod_its_annotation_and_asks_for_as_many_placeholders(example):
    pod, template = example.pod(), example.vm()["spec"]["template"]
    key = "dravirt.io/devices"
    assert pod["metadata"]["annotations"][key] == template["metadata"]["annotations"][key]
    resources = pod["spec"]["containers"][0]["resources"]
    count = str(len(example.asked().device_names))
    assert resources["limits"]["dravirt.io/gpu"] == resources["requests"]["dravirt.io/gpu"] == count


def test_the_names_in_the_annotation_are_templates_of_the_namespace(example):
    templates = {each["metadata"]["name"] for each in example.objects("resourceclaimtemplates")}
    assert {request.template for request in example.asked().requests} == templates
    namespaces = {each["metadata"]["namespace"] for each in example.objects("resourceclaimtemplates")}
    assert namespaces == {example.vm()["metadata"]["namespace"]}
