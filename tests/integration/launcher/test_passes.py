"""The stand-in's passes, held against those that KubeVirt's own launcher code and a real libvirt gave."""

import pytest
from support.corpus import corpus_cases
from support.domains import GRAPHICS, host_devices, parse, placeholder, small_domain
from support.passes import add_root_ports, after_libvirt, after_structs, with_placeholder_nics

from dra.contract import placeholder_uuid

RECORDED = {"v1.3.1", "v1.6.6", "v1.9.0"}
EMPTY_TYPE = {"v1.3.1", "v1.6.6"}
GPU = "ua-gpu-gpu0"
NIC = '<interface type="ethernet"><target dev="tap0"/><alias name="ua-default"/></interface>'


def recorded_hook(domain):
    """Answer as the hook did that the passes were recorded with: another UUID and nothing else."""
    return domain.replace(placeholder_uuid(0).encode(), b"b0a6f6ec-5f0f-4b8e-9c6e-0d3b6f0a7a11")


def gpu(domain):
    """Return the host device of gpu0, as far as its guest address, which is libvirt's to choose."""
    element = host_devices(domain)[GPU]
    children = [
        (child.tag, [dict(node.attrib) for node in child.iter()]) for child in element if child.tag != "address"
    ]
    return dict(element.attrib), children, element.find("address") is not None


def interfaces(domain):
    return [element.find("target").get("dev") for element in parse(domain).iterfind("devices/interface")]


@pytest.mark.parametrize("case", corpus_cases("passes", tags=RECORDED, but=["opt-mixed-plugin"]))
def test_passes_are_those_that_kubevirt_gave(case):
    # But for opt-mixed-plugin, whose hook also made a device of another into a PCI function.
    empty_type = case.tag in EMPTY_TYPE
    first = with_placeholder_nics(case.domain())
    given = [first or case.domain()]
    if first:
        given.append(after_libvirt(case.domain(), recorded_hook(first), empty_type=empty_type))
    if case.tag != "v1.3.1":
        given.append(add_root_ports(after_structs(recorded_hook(given[-1]), empty_type=empty_type)))
    recorded = case.passes()
    assert [gpu(domain) for domain in given] == [gpu(domain) for domain in recorded]
    assert [sorted(interfaces(domain)) for domain in given] == [sorted(interfaces(domain)) for domain in recorded]


def test_what_a_hook_changed_outside_of_the_devices_is_gone_in_the_second_pass():
    wanted = small_domain(placeholder("gpu0"), NIC, GRAPHICS)
    answer = wanted.replace(b"</domain>", b"<qemu:commandline/></domain>").replace(b"ns_vm", b"other")
    given = after_libvirt(wanted, answer, empty_type=False)
    assert b"commandline" not in given
    assert b"ns_vm" in given


def test_what_the_structs_do_not_know_is_gone_in_the_third_pass():
    host_device = placeholder("gpu0").replace("<alias", '<driver name="vfio"/><rom bar="off"/><alias')
    answer = small_domain(host_device, rest='<qemu:commandline><qemu:arg value="-x"/></qemu:commandline>')
    given = add_root_ports(after_structs(answer, empty_type=True))
    assert b"commandline" not in given
    assert [child.tag for child in host_devices(given)[GPU]] == ["source", "alias"]
    assert host_devices(given)[GPU].find("source/address").get("type") == ""
    assert len(parse(given).findall("devices/controller")) == 5


def test_vm_without_interface_or_with_all_it_can_have_has_no_placeholder_nics():
    assert with_placeholder_nics(small_domain()) is None
    assert with_placeholder_nics(small_domain(*[NIC] * 4)) is None
