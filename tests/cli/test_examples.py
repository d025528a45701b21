"""Every example goes the whole way through `dravirt simulate`, with the real servers as processes."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from lxml import etree
from support.examples import FOLDERS, ROOT, Example, fenced
from support.markdown import codes, rows, section

# What libvirt must get, by the annotation and the metadata of each example: alias, device, display, ramfb.
HOST_DEVICES = {
    "mig-backed-mdev": [("ua-gpu-gpu0", "b0a6f6ec-5f0f-4b8e-9c6e-0d3b6f0a7a11", "on", "on")],
    "time-sliced-mdev": [("ua-gpu-gpu0", "4d1f0b62-97a5-4c39-8a0d-b1e2c7f0a902", "on", "on")],
    "mig-backed-vf": [("ua-gpu-gpu0", "0000:18:00.4", None, None)],
    "passthrough": [("ua-gpu-gpu0", "0000:65:00.0", None, None)],
    "mixed": [
        ("ua-gpu-desktop", "4d1f0b62-97a5-4c39-8a0d-b1e2c7f0a902", "on", "on"),
        ("ua-gpu-training", "b0a6f6ec-5f0f-4b8e-9c6e-0d3b6f0a7a11", None, None),
        ("ua-gpu-rendering", "0000:65:00.0", None, None),
    ],
    "windows-display": [("ua-gpu-gpu0", "4d1f0b62-97a5-4c39-8a0d-b1e2c7f0a902", "on", "on")],
    "two-requests": [
        ("ua-gpu-gpu0", "7d9e2c14-3f60-4b8a-a5c7-09e1d4b6f823", "on", "on"),
        ("ua-gpu-gpu1", "e21b84d7-5c09-4f36-b7a2-6d3f80c1959e", None, None),
    ],
}
# ... and what the node says about the devices: kind, profile, MIG-backed.
KINDS = {
    "mig-backed-mdev": [("vgpu-mdev", "GRID A100-1-5C", True)],
    "time-sliced-mdev": [("vgpu-mdev", "NVIDIA A40-2Q", False)],
    "mig-backed-vf": [("vgpu-vf", "NVIDIA H200X-1-18C", True)],
    "passthrough": [("passthrough", None, None)],
    "mixed": [
        ("vgpu-mdev", "NVIDIA A40-2Q", False),
        ("vgpu-mdev", "GRID A100-1-5C", True),
        ("passthrough", None, None),
    ],
    "windows-display": [("vgpu-mdev", "NVIDIA A40-2Q", False)],
    "two-requests": [("vgpu-mdev", "NVIDIA A40-2Q", False), ("vgpu-mdev", "NVIDIA A40-2Q", False)],
}


@dataclass(frozen=True, slots=True)
class Simulated:
    """An example after its simulation."""

    example: Example
    printed: str
    out: Path

    @property
    def name(self) -> str:
        return self.example.folder.name

    def pod(self) -> dict:
        return yaml.safe_load((self.out / "pod.yaml").read_text())

    def domain(self, number: int) -> etree._Element:
        return etree.parse(self.out / f"domain.pass{number}.xml", _without_blanks()).getroot()


@pytest.fixture(scope="module", params=FOLDERS, ids=lambda folder: folder.name)
def simulated(request, tmp_path_factory) -> Simulated:
    out = tmp_path_factory.mktemp(request.param.name)
    command = [sys.executable, "-m", "cli", "simulate", str(request.param), "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return Simulated(Example(request.param), done.stdout, out)


def test_the_tables_cover_every_example():
    assert sorted(HOST_DEVICES) == sorted(KINDS) == [folder.name for folder in FOLDERS]


@pytest.mark.parametrize("number", [1, 2])
def test_the_host_devices_are_exactly_those_allocated(simulated, number):
    hostdevs = simulated.domain(number).findall("devices/hostdev")
    assert [_described(hostdev) for hostdev in hostdevs] == HOST_DEVICES[simulated.name]


def test_the_second_pass_keeps_the_guest_addresses(simulated):
    addresses = [hostdev.find("address") for hostdev in simulated.domain(2).findall("devices/hostdev")]
    assert len({address.get("bus") for address in addresses}) == len(HOST_DEVICES[simulated.name])


def test_nothing_else_of_the_domain_changed(simulated):
    before = etree.fromstring(simulated.example.domain(), _without_blanks())
    assert _without_hostdevs(simulated.domain(1)) == _without_hostdevs(before)


def test_the_devices_are_what_the_node_says(simulated):
    devices = json.loads((simulated.out / "devices.json").read_text())
    assert [(each["kind"], each["profile"], each["migBacked"]) for each in devices] == KINDS[simulated.name]
    assert {each["source"] for each in devices} == {"metadata"}


def test_the_pod_has_the_claims_and_no_placeholder(simulated):
    spec, asked = simulated.pod()["spec"], simulated.example.asked()
    assert spec["resourceClaims"] == [claim.as_pod_claim() for claim in asked.claims]
    references = [reference for claim in asked.claims for reference in claim.as_container_claims()]
    compute, sidecar = spec["containers"][0], spec["initContainers"][0]
    assert (compute["name"], sidecar["name"]) == ("compute", "dravirt-hook")
    assert compute["resources"]["claims"] == sidecar["resources"]["claims"] == references
    assert "dravirt.io/gpu" not in {**compute["resources"]["limits"], **compute["resources"]["requests"]}
    flags = compute.get("args") or compute["command"]
    assert flags[flags.index("--hook-sidecars") + 1] == "1"


def test_its_readme_shows_the_annotation_of_the_vm(simulated):
    (shown,) = fenced((simulated.example.folder / "README.md").read_text(), "yaml")
    assert yaml.safe_load(shown) == simulated.example.vm()["spec"]["template"]["metadata"]["annotations"]


def test_its_readme_shows_what_is_printed(simulated):
    printed = {line.strip() for line in simulated.printed.splitlines()}
    (shown,) = fenced((simulated.example.folder / "README.md").read_text(), "text")
    assert len(shown.splitlines()) == len(HOST_DEVICES[simulated.name])
    assert set(shown.splitlines()) <= printed


def test_the_readme_of_the_project_shows_what_is_printed(simulated):
    table = section(ROOT / "README.md", "## Examples")
    (shown,) = [codes(row[2]) for row in rows(table) if row[0].startswith(f"[{simulated.name}]")]
    assert len(shown) == len(HOST_DEVICES[simulated.name])
    assert all(device in simulated.printed for device in shown)


def test_the_readme_of_the_project_shows_the_end_of_the_demo(simulated):
    if simulated.name == "mig-backed-mdev":
        demo, *_ = fenced((ROOT / "README.md").read_text(), "text")
        assert {line for line in demo.splitlines() if line} <= set(simulated.printed.splitlines())


def test_its_readme_shows_the_host_devices(simulated):
    (shown,) = fenced((simulated.example.folder / "README.md").read_text(), "xml")
    expected = etree.fromstring(f"<devices>{shown}</devices>", _without_blanks())
    hostdevs = simulated.domain(1).findall("devices/hostdev")
    assert [_canonical(each) for each in expected] == [_canonical(each) for each in hostdevs]


def _described(hostdev: etree._Element) -> tuple[str, str, str | None, str | None]:
    assert hostdev.get("mode") == "subsystem"
    source = hostdev.find("source/address")
    device = source.get("uuid") or "{domain}:{bus}:{slot}.{function}".format(
        **{name: value.removeprefix("0x") for name, value in source.items()}
    )
    assert hostdev.get("type") == ("mdev" if source.get("uuid") else "pci")
    return hostdev.find("alias").get("name"), device, hostdev.get("display"), hostdev.get("ramfb")


def _without_hostdevs(domain: etree._Element) -> bytes:
    devices = domain.find("devices")
    for hostdev in devices.findall("hostdev"):
        devices.remove(hostdev)
    return _canonical(domain)


def _canonical(element: etree._Element) -> bytes:
    # Exclusive: the namespaces that an element does not use are those of the domain around it.
    return etree.tostring(element, method="c14n", exclusive=True)


def _without_blanks() -> etree.XMLParser:
    return etree.XMLParser(remove_blank_text=True)
