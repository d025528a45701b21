"""The wire: the stubs are what protoc makes of our definitions, and the definitions are KubeVirt's."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hooksidecar.api import info_pb2, v1alpha1_pb2, v1alpha2_pb2, v1alpha3_pb2

ROOT = Path(__file__).parents[2]
API = ROOT / "hooksidecar" / "api"
PROTOS = sorted(API.glob("*.proto"))

# What differs between two releases of grpcio-tools: the version numbers, and `(object)` behind class names.
VERSIONS = re.compile(r"(?m)# Protobuf Python Version.*|GRPC_GENERATED_VERSION = .*|^    \d+,$|\(object\)(?=:)")


def test_stubs_are_what_protoc_makes_of_the_protos(tmp_path):
    outputs = [f"--{kind}={tmp_path}" for kind in ("python_out", "pyi_out", "grpc_python_out")]
    protos = [str(proto.relative_to(ROOT)) for proto in PROTOS]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", "-I.", *outputs, *protos], cwd=ROOT, check=True)
    made = {path.name: path.read_text() for path in (tmp_path / "hooksidecar" / "api").iterdir()}
    assert len(made) == 3 * len(PROTOS)
    stale = [
        name for name, text in made.items() if VERSIONS.sub("", text) != VERSIONS.sub("", (API / name).read_text())
    ]
    assert not stale, "run `make protos`"


@pytest.mark.parametrize("stub", sorted(API.glob("*_pb2*.py")), ids=lambda path: path.name)
def test_stubs_load_with_the_oldest_libraries_that_pyproject_allows(stub):
    text = stub.read_text()
    assert "'1.80.0'" in text if stub.name.endswith("_grpc.py") else "# Protobuf Python Version: 6.31.1" in text


CALLBACKS = {
    v1alpha1_pb2: {"OnDefineDomain"},
    v1alpha2_pb2: {"OnDefineDomain", "PreCloudInitIso"},
    v1alpha3_pb2: {"OnDefineDomain", "PreCloudInitIso", "Shutdown"},
}


@pytest.mark.parametrize(("api", "methods"), CALLBACKS.items(), ids=["v1alpha1", "v1alpha2", "v1alpha3"])
def test_callbacks_have_the_methods_and_fields_of_kubevirt(api, methods):
    version = api.__name__.rpartition(".")[2].removesuffix("_pb2")
    service = api.DESCRIPTOR.services_by_name["Callbacks"]
    assert service.full_name == f"kubevirt.hooks.{version}.Callbacks"
    assert {method.name for method in service.methods} == methods
    assert api.OnDefineDomainParams(domainXML=b"<d/>", vmi=b"{}").SerializeToString() == b"\x0a\x04<d/>\x12\x02{}"
    if "PreCloudInitIso" in methods:
        result = api.PreCloudInitIsoResult(cloudInitNoCloudSource=b"a", cloudInitData=b"b")
        assert result.SerializeToString() == b"\x0a\x01a\x1a\x01b"


def test_info_has_the_fields_of_kubevirt():
    point = info_pb2.HookPoint(name="OnDefineDomain", priority=1)
    result = info_pb2.InfoResult(name="dravirt", hookPoints=[point], versions=["v1alpha3"])
    assert info_pb2.DESCRIPTOR.services_by_name["Info"].full_name == "kubevirt.hooks.info.Info"
    assert result.SerializeToString() == b"\x0a\x07dravirt\x1a\x12\x0a\x0eOnDefineDomain\x10\x01\x22\x08v1alpha3"
