"""Claims, slices, metadata and node of an example tell one story: what was asked for is what is there."""

import re
from pathlib import Path

import pytest
from support.examples import FOLDERS, METADATA, Allocated, Example, json_stream, plain

from dra.contract import METADATA_DIR
from dra.identity import Identity, MdevUUID, PciAddress
from dra.metadata import decode_metadata
from hooksidecar.node import inspect
from hooksidecar.sysfs import HostTree

_SELECTOR = re.compile(r'device\.attributes\["(?P<domain>[^"]+)"\]\.(?P<name>\w+) == "(?P<value>[^"]+)"')

pytestmark = pytest.mark.parametrize("example", [pytest.param(Example(folder), id=folder.name) for folder in FOLDERS])


def identity(device: Allocated) -> Identity:
    """The device that the metadata names, by the rule of docs/drivers.md."""
    attributes = device.metadata
    if "mdevUUID" in attributes:
        return MdevUUID.parse(str(attributes["mdevUUID"]))
    return PciAddress.parse(str(attributes.get("pciBusID") or attributes["resource.kubernetes.io/pciBusID"]))


def pci_function(example: Example, address: str | int | bool) -> Path:
    return (example.node / "sys/bus/pci/devices" / str(address)).resolve(strict=True)


def test_there_is_a_claim_for_each_pod_claim_made_from_its_template(example):
    templates = {each["metadata"]["name"]: each["spec"]["spec"] for each in example.objects("resourceclaimtemplates")}
    claims = example.claims()
    assert list(claims) == [pod_claim.name for pod_claim in example.asked().claims]
    for pod_claim in example.asked().claims:
        spec = templates[pod_claim.template]
        for request in spec["devices"]["requests"]:
            request["exactly"] |= {"allocationMode": "ExactCount", "count": 1}  # the API server's defaults
        assert claims[pod_claim.name]["spec"] == spec


def test_a_claim_is_named_after_its_pod_and_belongs_to_it(example):
    for pod_claim, claim in example.claims().items():
        metadata = claim["metadata"]
        owner, holder = metadata["ownerReferences"][0], claim["status"]["reservedFor"]
        assert owner["name"].startswith(example.pod()["metadata"]["generateName"])
        assert re.fullmatch(f"{re.escape(owner['name'])}-{pod_claim}-[a-z0-9]{{5}}", metadata["name"])
        assert holder == [{"resource": "pods", "name": owner["name"], "uid": owner["uid"]}]


def test_each_request_got_one_device_that_its_selector_takes(example):
    allocated = list(example.allocated())
    for claim in example.claims().values():
        requests = {request["name"]: request["exactly"] for request in claim["spec"]["devices"]["requests"]}
        results = [device for device in allocated if device.claim["metadata"] == claim["metadata"]]
        assert sorted(device.result["request"] for device in results) == sorted(requests)
        for device in results:
            for selector in requests[device.result["request"]]["selectors"]:
                rule = _SELECTOR.fullmatch(selector["cel"]["expression"])
                assert rule
                assert rule["domain"] == device.result["driver"]
                assert device.attributes[rule["name"]] == rule["value"]


def test_constraints_hold_between_the_devices_of_a_claim(example):
    for claim in example.claims().values():
        for constraint in claim["spec"]["devices"].get("constraints", []):
            values = {
                device.attributes[constraint["matchAttribute"].removeprefix(f"{device.result['driver']}/")]
                for device in example.allocated()
                if device.claim["metadata"] == claim["metadata"] and device.result["request"] in constraint["requests"]
            }
            assert len(values) == 1


def test_configuration_of_a_claim_is_part_of_its_allocation(example):
    for claim in example.claims().values():
        asked = claim["spec"]["devices"].get("config", [])
        given = claim["status"]["allocation"]["devices"].get("config", [])
        assert given == [{"source": "FromClaim", **config} for config in asked]


def test_pools_are_complete_and_devices_on_the_node_of_the_claims(example):
    nodes = {
        value
        for claim in example.claims().values()
        for term in claim["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"]
        for field in term["matchFields"]
        for value in field["values"]
    }
    pools = [(each["spec"]["driver"], each["spec"]["pool"]["name"]) for each in example.objects("resourceslices")]
    for slice_ in example.objects("resourceslices"):
        spec = slice_["spec"]
        assert pools.count((spec["driver"], spec["pool"]["name"])) == spec["pool"]["resourceSliceCount"]
        assert {spec["nodeName"]} == nodes


def test_there_is_a_metadata_file_for_each_result_and_no_other(example):
    written = {file for file in (example.node / METADATA).rglob("*") if file.is_file()}
    assert written == {example.metadata_file(device.claim, device.result) for device in example.allocated()}
    assert f"/{METADATA}" == METADATA_DIR


def test_metadata_says_in_each_version_what_the_claim_and_the_slice_say(example):
    for device in example.allocated():
        file = example.metadata_file(device.claim, device.result)
        for version in json_stream(file.read_text()):
            assert version["metadata"] == {
                **{key: device.claim["metadata"][key] for key in ("name", "namespace", "uid")},
                "generation": 1,
            }
            assert version["podClaimName"] == file.parent.parent.name
            (request,) = version["requests"]
            (written,) = request["devices"]
            assert request["name"] == device.result["request"]
            assert (written["driver"], written["pool"], written["name"]) == tuple(
                device.result[key] for key in ("driver", "pool", "device")
            )
            assert plain(written["attributes"]).items() >= device.attributes.items()
        (decoded,) = decode_metadata(file.read_bytes(), path=str(file))
        assert plain(dict(decoded.attributes)) == device.metadata


def test_nvidia_driver_writes_v1alpha1_alone(example):
    for device in example.allocated():
        file = example.metadata_file(device.claim, device.result)
        versions = [each["apiVersion"] for each in json_stream(file.read_text())]
        known = ["metadata.resource.k8s.io/v1beta1", "metadata.resource.k8s.io/v1alpha1"]
        assert versions == (known[1:] if device.result["driver"] == "gpu.nvidia.com" else known)


def test_the_node_has_each_device_ready_for_a_vm(example):
    tree = HostTree(example.node)
    for device in example.allocated():
        learnt = inspect(tree, identity(device))
        assert learnt.profile == device.attributes.get("profile")
        assert learnt.kind == {"mdev": "vgpu-mdev", "vf": "vgpu-vf"}.get(
            device.attributes.get("vgpuFramework"), "passthrough"
        )


def test_the_published_address_is_that_of_the_board_below_its_root(example):
    for device in example.allocated():
        board = pci_function(example, device.attributes["resource.kubernetes.io/pciBusID"])
        root = board.relative_to(example.node.resolve() / "sys/devices").parts[0]
        assert root == device.attributes["resource.kubernetes.io/pcieRoot"]


def test_the_device_in_the_metadata_is_one_of_the_published_board(example):
    for device in example.allocated():
        board = pci_function(example, device.attributes["resource.kubernetes.io/pciBusID"])
        if device.result["driver"] == "gpu.nvidia.com":
            assert str(identity(device)) == board.name
            continue
        virtual = pci_function(example, device.metadata["pciBusID"])
        assert (virtual / "physfn").resolve(strict=True) == board
        if "mdevUUID" in device.metadata:
            mdev = example.node / "sys/bus/mdev/devices" / str(device.metadata["mdevUUID"])
            assert mdev.resolve(strict=True).parent == virtual


def test_published_devices_are_of_boards_that_the_node_has(example):
    for slice_ in example.objects("resourceslices"):
        for device in slice_["spec"]["devices"]:
            assert pci_function(example, plain(device["attributes"])["resource.kubernetes.io/pciBusID"])
