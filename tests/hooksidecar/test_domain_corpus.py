"""The edit of every domain that KubeVirt renders, release by release, over two and three passes."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support import domains
from support.corpus import Case, corpus_cases
from support.domains import guest_address, host_devices, mdev, next_pass, passthrough, shown, source, vgpu_vf

from dra.device import Device
from dra.errors import Refused
from dra.identity import MdevUUID
from dra.intent import Mode
from dra.reasons import Reason
from hooksidecar.domain import edit_domain

NO_PLACEHOLDER = ["opt-append", "opt-native-claims"]
PLACEHOLDER = pytest.mark.parametrize("case", corpus_cases("domains", optin=True, but=NO_PLACEHOLDER))
EMPTY_TYPE = ["v1.1.1", "v1.3.1", "v1.5.3", "v1.6.6"]
"""The releases whose structs write `<address type="">`."""

ON, OFF = ("on", "on"), (None, None)
DISPLAYS = {
    "opt-count": {"gpu-0": ON, "gpu-1": OFF},
    "opt-two": {"gpu0": ON, "gpu1": OFF},  # as the owner wishes
    "opt-mixed-plugin": {"gpu0": OFF},  # KubeVirt gave it to the vGPU of the device plugin
    "opt-nographics": {"gpu0": OFF},  # though KubeVirt writes display="on"
}

KINDS: dict[str, Callable[[str, int], Device]] = {"mdev": mdev, "vgpu-vf": vgpu_vf, "passthrough": passthrough}


def variants(case: Case) -> Iterator[tuple[list[Device], Any]]:
    """Yield devices for the placeholders of a case, of each kind in turn, and the VMI."""
    names = domains.placeholder_names(case.domain())
    assert names
    for kind, make in KINDS.items():
        vmi = None if kind == "passthrough" else case.vmi()  # some wish a display, which only a vGPU has
        yield [make(name, number) for number, name in enumerate(names)], vmi


def aliases(devices: list[Device], prefix: str = "ua-gpu-") -> list[str]:
    return [prefix + device.name for device in devices]


@PLACEHOLDER
def test_each_placeholder_becomes_its_device_and_nothing_else_changes(case: Case):
    domain = case.domain()
    for devices, vmi in variants(case):
        answer = edit_domain(domain, devices, mode=Mode.PLACEHOLDER, vmi=vmi)
        assert domains.placeholder_names(answer) == []
        found = host_devices(answer)
        assert list(found) == list(host_devices(domain))
        for device in devices:
            element = found[f"ua-gpu-{device.name}"]
            is_mdev = isinstance(device.identity, MdevUUID)
            assert element.get("type") == ("mdev" if is_mdev else "pci")
            assert element.get("mode") == "subsystem"
            assert [child.tag for child in element] == ["source", "alias"]
            assert not is_mdev or source(element) == {"uuid": str(device.identity)}
        assert domains.outside(answer, aliases(devices)) == domains.outside(domain, aliases(devices))


@PLACEHOLDER
def test_display_is_where_kubevirt_would_have_it(case: Case):
    devices, vmi = next(variants(case))
    found = host_devices(edit_domain(case.domain(), devices, mode=Mode.PLACEHOLDER, vmi=vmi))
    displays = {device.name: shown(found[f"ua-gpu-{device.name}"]) for device in devices}
    assert displays == DISPLAYS.get(case.name, {"gpu0": ON})


@PLACEHOLDER
def test_further_passes_give_the_same_devices_and_keep_their_addresses(case: Case):
    for devices, vmi in variants(case):
        answers, seen = [], case.domain()
        for _ in range(3):
            answers.append(edit_domain(seen, devices, mode=Mode.PLACEHOLDER, vmi=vmi))
            assert edit_domain(answers[-1], devices, mode=Mode.PLACEHOLDER, vmi=vmi) == answers[-1]
            seen = next_pass(answers[-1], empty_type=case.tag in EMPTY_TYPE)
        assert answers[2] == answers[1]
        first, second = host_devices(answers[0]), host_devices(answers[1])
        assigned = host_devices(next_pass(answers[0]))
        for alias in aliases(devices):
            assert dict(first[alias].attrib) == dict(second[alias].attrib)
            assert source(first[alias]) == source(second[alias])
            assert guest_address(first[alias]) is None
            assert guest_address(second[alias]) == guest_address(assigned[alias])
            assert guest_address(second[alias]) is not None


@PLACEHOLDER
def test_order_of_the_devices_given_does_not_matter(case: Case):
    for devices, vmi in variants(case):
        answer = edit_domain(case.domain(), devices, mode=Mode.PLACEHOLDER, vmi=vmi)
        assert edit_domain(case.domain(), devices[::-1], mode=Mode.PLACEHOLDER, vmi=vmi) == answer


@pytest.mark.parametrize("case", corpus_cases("domains"))
def test_device_without_placeholder_is_refused(case: Case):
    for make in KINDS.values():
        with pytest.raises(Refused, match="device 'absent'") as caught:
            edit_domain(case.domain(), [make("absent", 0)], mode=Mode.PLACEHOLDER, vmi=case.vmi())
        assert caught.value.reason is Reason.NO_PLACEHOLDER


@pytest.mark.parametrize(
    "case", corpus_cases("domains", optin=False) + corpus_cases("domains", tags=["v1.9.0"], names=NO_PLACEHOLDER)
)
def test_devices_are_appended_and_nothing_else_changes(case: Case):
    domain = case.domain()
    for make in KINDS.values():
        devices = [make("a", 1), make("b", 2)]
        answer = edit_domain(domain, devices, mode=Mode.APPEND, vmi=case.vmi())
        ours = aliases(devices, "ua-dravirt-")
        found = host_devices(answer)
        assert list(found) == [*host_devices(domain), *ours]
        assert all(guest_address(found[alias]) is None for alias in ours)
        assert domains.outside(answer, ours, appended=True) == domains.outside(domain, ours, appended=True)
        assert edit_domain(answer, devices, mode=Mode.APPEND, vmi=case.vmi()) == answer


@PLACEHOLDER
def test_domain_with_a_placeholder_is_never_let_through(case: Case):
    with pytest.raises(Refused, match="'ua-gpu-gpu") as caught:
        edit_domain(case.domain(), [mdev("other")], mode=Mode.APPEND, vmi=case.vmi())
    assert caught.value.reason is Reason.PLACEHOLDER_LEFT


# What KubeVirt and libvirt really made of an answer in which gpu0 was this mediated device.
RECORDED = Device("gpu0", MdevUUID.parse("b0a6f6ec-5f0f-4b8e-9c6e-0d3b6f0a7a11"))


@pytest.mark.parametrize("case", corpus_cases("passes"))
def test_recorded_passes_keep_device_and_address(case: Case):
    for number, seen in enumerate(case.passes()):
        answer = edit_domain(seen, [RECORDED], mode=Mode.PLACEHOLDER, vmi=case.vmi())
        before, after = host_devices(seen)["ua-gpu-gpu0"], host_devices(answer)["ua-gpu-gpu0"]
        assert source(after) == {"uuid": str(RECORDED.identity)}
        assert guest_address(after) == guest_address(before)
        assert (guest_address(after) is not None) == (number > 0 and case.name != "opt-nonet")
        # In the later passes of the mixed case the other vGPU is a virtual function, which has no display.
        assert shown(after) == (OFF if case.name == "opt-mixed-plugin" and number == 0 else ON)
        assert domains.outside(answer, ["ua-gpu-gpu0"]) == domains.outside(seen, ["ua-gpu-gpu0"])
        assert edit_domain(answer, [RECORDED], mode=Mode.PLACEHOLDER, vmi=case.vmi()) == answer


@pytest.mark.parametrize("case", corpus_cases("passes", but=["opt-mixed-plugin", "opt-nonet"]))
def test_simulated_next_pass_is_the_recorded_one(case: Case):
    """The helper of these tests does to our host device what KubeVirt and libvirt did."""
    first, second = case.passes()[:2]
    answer = edit_domain(first, [RECORDED], mode=Mode.PLACEHOLDER, vmi=case.vmi())
    ours = host_devices(next_pass(answer, empty_type=case.tag in EMPTY_TYPE))["ua-gpu-gpu0"]
    recorded = host_devices(second)["ua-gpu-gpu0"]
    assert nodes(ours) == nodes(recorded)


def nodes(element: Any) -> list[Any]:
    return [(child.tag, list(child.attrib.items())) for child in element.iter()]
