"""hook: the edit of the domain at the door of the command."""

import json

import pytest
from lxml import etree

from cli.main import main
from dra.device import read_devices
from dra.intent import Mode
from hooksidecar.domain import edit_domain

DOMAIN = b"""<domain type="kvm"><devices>
  <hostdev type="mdev" mode="subsystem" model="vfio-pci"><source><address uuid="00000000-0000-4000-8000-000000000000"/>
  </source><alias name="ua-gpu-gpu0"/></hostdev><graphics type="vnc"/></devices></domain>"""
DEVICES = [{"name": "gpu0", "mdevUUID": "B0A6F6EC-5f0f-4b8e-9c6e-0d3b6f0a7a11"}]


@pytest.fixture
def files(tmp_path):
    def files(domain=DOMAIN, devices=DEVICES, vmi="{}"):
        (tmp_path / "domain.xml").write_bytes(domain)
        (tmp_path / "devices.json").write_text(devices if isinstance(devices, str) else json.dumps(devices))
        (tmp_path / "vmi.json").write_text(vmi)
        given = ["--vmi", str(tmp_path / "vmi.json"), "--devices", str(tmp_path / "devices.json")]
        return ["hook", *given, str(tmp_path / "domain.xml")]

    return files


def test_the_domain_comes_out_with_the_device(files, capfdbinary):
    assert main(files()) == 0

    out = capfdbinary.readouterr().out
    addresses = [address.get("uuid") for address in etree.fromstring(out).iter("address")]
    assert addresses == ["b0a6f6ec-5f0f-4b8e-9c6e-0d3b6f0a7a11"]
    devices = read_devices(DEVICES, path="")
    assert out.rstrip(b"\n") == edit_domain(DOMAIN, devices, mode=Mode.PLACEHOLDER, vmi={})


def test_append_adds_a_host_device(files, capfdbinary):
    plain = b"<domain><devices/></domain>"

    assert main([*files(domain=plain), "--append"]) == 0
    assert b'<alias name="ua-dravirt-gpu0"/>' in capfdbinary.readouterr().out


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"domain": b"<domain"}, "well-formed"),
        ({"domain": b"<domain><devices/></domain>"}, "no host device 'ua-gpu-gpu0'"),
        ({"devices": "["}, "is no JSON"),
        ({"devices": [{"name": "gpu0"}]}, "[0]: needs exactly one of mdevUUID and pciAddress"),
        ({"vmi": "[]"}, "must be a VirtualMachineInstance"),
        ({"vmi": '{"kind": "VirtualMachine"}'}, "must be a VirtualMachineInstance"),
    ],
    ids=["xml", "no-placeholder", "json", "no-identity", "vmi", "vm"],
)
def test_what_is_wrong_exits_with_1_and_says_what(files, given, text, capfdbinary):
    assert main(files(**given)) == 1

    output = capfdbinary.readouterr()
    assert output.out == b""
    assert text in output.err.decode()
