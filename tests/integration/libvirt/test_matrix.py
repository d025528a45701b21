"""Every domain that the sidecar makes of KubeVirt's, judged by a real libvirt and QEMU, with each kind of device."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from support import domains
from support.corpus import Case, corpus_cases
from support.domains import GRAPHICS, guest_address, host_devices, placeholder
from support.libvirtcompare import changes, facts, misplaced
from support.libvirtdomains import HOOK_ARGUMENTS, HOOK_DISK, for_emulation, hook_of_another, multiplied, small_domain
from support.libvirtembed import Libvirt
from support.libvirtkinds import KINDS, devices_by_kind, named
from support.libvirtmatrix import PROPERTY, Cell
from support.libvirtverdict import Edit, Judge, Stage

from dra.contract import APPEND_ALIAS, PLACEHOLDER_ALIAS
from dra.device import Device, Kind
from dra.identity import MdevUUID
from dra.intent import Mode
from hooksidecar.domain import edit_domain

NO_PLACEHOLDER = ("opt-append", "opt-native-claims")
EMPTY_TYPE = ("v1.3.1", "v1.5.3", "v1.6.6")
"""The releases whose structs write `<address type="">`."""


@pytest.fixture(scope="session")
def by_kind(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Device]:
    """A device of each kind."""
    return devices_by_kind(tmp_path_factory.mktemp("node"))


def test_each_kind_is_what_it_is_called(by_kind: dict[str, Device]) -> None:
    assert {kind: (device.kind, device.mig_backed) for kind, device in by_kind.items()} == {
        "mdev": (Kind.VGPU_MDEV, False),
        "MIG mdev": (Kind.VGPU_MDEV, True),
        "vGPU VF": (Kind.VGPU_VF, False),
        "MIG VF": (Kind.VGPU_VF, True),
        "VF": (Kind.VF, None),
        "GPU": (Kind.PASSTHROUGH, None),
    }


@pytest.mark.parametrize("case", corpus_cases("domains", tags=["v1.9.0"], optin=True))
def test_no_host_device_is_touched_for_emulation(case: Case) -> None:
    before, after = host_devices(case.domain()), host_devices(for_emulation(case.domain()))
    assert {alias: [*facts(element)] for alias, element in after.items()} == {
        alias: [*facts(element)] for alias, element in before.items()
    }


@dataclass(frozen=True, slots=True)
class Machine:
    """A VM: the domain that KubeVirt renders for it, and what other hooks do before and after ours."""

    tag: str
    name: str
    domain: bytes
    vmi: dict[str, Any] | None = None
    mode: Mode = Mode.PLACEHOLDER
    names: tuple[str, ...] = ("gpu0",)
    before: Edit = bytes
    after: Edit = bytes

    @property
    def extra(self) -> tuple[str, ...]:
        """What QEMU must be given for the other hooks."""
        return () if self.before is self.after else (*HOOK_ARGUMENTS, HOOK_DISK)

    def devices(self, by_kind: dict[str, Device], kind: str) -> dict[str, Device]:
        """Return its devices by alias."""
        prefix = PLACEHOLDER_ALIAS if self.mode is Mode.PLACEHOLDER else APPEND_ALIAS
        return {prefix + device.name: device for device in named(by_kind, self.names, first=kind)}

    def edit(self, devices: list[Device]) -> Edit:
        """Return what is done to its domain in each pass."""
        vmi = None if wishes_in_vain(self.vmi, devices) else self.vmi
        return lambda seen: self.after(edit_domain(self.before(seen), devices, mode=self.mode, vmi=vmi))


def wishes_in_vain(vmi: dict[str, Any] | None, devices: list[Device]) -> bool:
    """True where the VMI wishes a display for a device that is no vGPU. dravirt refuses that; nobody would ask."""
    gpus = vmi["spec"]["domain"]["devices"].get("gpus", []) if vmi else []
    displays = {gpu["name"]: gpu.get("virtualGPUOptions", {}).get("display", {}).get("enabled") for gpu in gpus}
    return any(displays.get(device.name) and not device.is_vgpu for device in devices)


def machine_of(case: Case) -> Machine:
    append = case.name in NO_PLACEHOLDER
    names = ("gpu0",) if append else tuple(domains.placeholder_names(case.domain()))
    mode = Mode.APPEND if append else Mode.PLACEHOLDER
    return Machine(case.tag, case.name, case.domain(), case.vmi(), mode, names)


def several_devices(count: int) -> Callable[[Case], Machine]:
    names = tuple(f"gpu{number}" for number in range(count))
    return lambda case: Machine(case.tag, f"{case.name} x {count}", multiplied(case.domain(), count), names=names)


def several_appended(count: int) -> Callable[[Case], Machine]:
    names = tuple(f"gpu{number}" for number in range(count))
    return lambda case: Machine(case.tag, f"{case.name} x {count}", case.domain(), None, Mode.APPEND, names)


def hook_before(case: Case) -> Machine:
    return Machine(case.tag, f"{case.name} + hook before", case.domain(), before=hook_of_another)


def hook_after(case: Case) -> Machine:
    return Machine(case.tag, f"{case.name} + hook after", case.domain(), after=hook_of_another)


MADE_OF: dict[str, tuple[str, Callable[[Case], Machine]]] = {
    "two": ("opt-one", several_devices(2)),
    "four": ("opt-one", several_devices(4)),
    "four-appended": ("opt-append", several_appended(4)),
    "hook-before": ("opt-one", hook_before),
    "hook-after": ("opt-one", hook_after),
}
"""What is made of a case beside its own domain."""


def machines() -> list[Any]:
    """Return a parameter for each domain of the corpus and for each machine made of one."""
    kinds_of_machine = [("", machine_of, corpus_cases("domains", optin=True))]
    for suffix, (name, make) in MADE_OF.items():
        kinds_of_machine.append((f"-{suffix}", make, corpus_cases("domains", names=[name])))
    return [
        pytest.param(partial(make, *case.values), marks=case.marks, id=f"{case.id}{suffix}")
        for suffix, make, cases in kinds_of_machine
        for case in cases
    ]


def judged(libvirt: Libvirt, machine: Machine, kind: str, by_kind: dict[str, Device], record_property: Any) -> None:
    devices = machine.devices(by_kind, kind)
    edit = machine.edit(list(devices.values()))
    judge = Judge(libvirt, edit, devices, machine.extra, empty_type=machine.tag in EMPTY_TYPE)
    verdict = judge.verdict(machine.domain)
    versions = "libvirt {}.{}.{}, QEMU {}.{}.{}".format(*libvirt.version, *libvirt.qemu_version)
    cell = Cell.of(verdict, versions=versions, tag=machine.tag, case=machine.name, kind=kind)
    record_property(PROPERTY, cell.to_json())
    assert verdict.faults == {}, f"libvirt's log ends with:\n{libvirt.log()}"
    assert verdict.passed == list(Stage)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", machines())
def test_domain_of_kubevirt(libvirt, by_kind, record_property, make, kind):
    judged(libvirt, make(), kind, by_kind, record_property)


SMALL = [
    Machine("-", "small", small_domain(GRAPHICS, placeholder("gpu0"))),
    Machine("-", "small, appended", small_domain(GRAPHICS), mode=Mode.APPEND, names=("a", "b")),
    Machine("-", "small, no graphics", small_domain(placeholder("gpu0", display=' display="on" ramfb="on"'))),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("machine", SMALL, ids=lambda machine: machine.name)
def test_small_domain(libvirt, by_kind, record_property, machine, kind):
    judged(libvirt, machine, kind, by_kind, record_property)


RECORDED = Device("gpu0", MdevUUID.parse("b0a6f6ec-5f0f-4b8e-9c6e-0d3b6f0a7a11"))
"""What gpu0 was in the passes that were recorded from KubeVirt itself."""


@pytest.mark.parametrize("case", corpus_cases("passes"))
def test_passes_as_kubevirt_made_them(libvirt, case):
    for seen in case.passes():
        answer = edit_domain(seen, [RECORDED], mode=Mode.PLACEHOLDER, vmi=case.vmi())
        kept = libvirt.keep(for_emulation(answer))
        found = changes(answer, kept, libvirt.version)
        # KubeVirt's placeholder NICs have aliases without ua-, which is as good as none.
        assert [fact for fact in found.lost if not fact.startswith("alias 'placeholder-")] == []
        assert found.added == []
        assert misplaced(kept, {"ua-gpu-gpu0": RECORDED}) == []
        given, now = (guest_address(host_devices(domain)["ua-gpu-gpu0"]) for domain in (seen, kept))
        assert given in (None, now)
