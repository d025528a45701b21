"""As many devices as there can be, and hooks of others before and after ours."""

import re
import time

import pytest
from support.claimed import allocated, entry, template_folder, write_metadata
from support.domains import (
    GRAPHICS,
    alias,
    guest_address,
    host_devices,
    identity,
    parse,
    placeholder,
    placeholder_names,
    small_domain,
    source,
)
from support.hosttree import NodeTree
from support.launcher import RELEASES, Launcher
from support.nodetree import A100_MDEV
from support.otherhooks import other_hook
from support.sidecars import launcher_pod

NIC = '<interface type="ethernet"><target dev="tap0"/><alias name="ua-default"/></interface>'
COUNT = 32
BOARD = "0000:3d:00.0"
FUNCTIONS = [f"0000:3d:{4 + number // 8:02x}.{number % 8}" for number in range(COUNT)]


def full_board(tree: NodeTree) -> None:
    """A board all of whose 32 virtual functions hold a vGPU: none lists a type any more."""
    tree.pci(BOARD, device="0x26b9", driver="nvidia", group=99, totalvfs=COUNT, virtfns=dict(enumerate(FUNCTIONS)))
    for number, address in enumerate(FUNCTIONS):
        folder = tree.pci(address, device="0x26b9", driver="nvidia", group=100 + number, vfio=number, physfn=BOARD)
        tree.vgpu(folder, current=1155, creatable="ID    : vGPU Name")
        tree.nodes(100 + number)


def test_32_devices_are_attached_in_their_order_within_the_budget():
    with launcher_pod() as pod:
        full_board(pod.tree)
        devices = [allocated(f"vf{number:02}", pciBusID=address) for number, address in enumerate(FUNCTIONS)]
        write_metadata(template_folder(pod.metadata, "vgpu", pod_claim="dravirt-gpu"), *reversed(devices))
        pod.start(pod.environment(entry("gpu", request="vgpu", count=COUNT)))
        names = [f"gpu-{number}" for number in range(COUNT)]
        domain = small_domain(*[placeholder(name, number) for number, name in enumerate(names)], NIC, GRAPHICS)
        launcher = Launcher(pod.sockets, RELEASES["v1.9"])
        launcher.collect(1)
        started = time.monotonic()
        launcher.sync(domain)
        assert time.monotonic() - started < 10
        assert len(launcher.passes) == 3
        attached = {name: identity(each) for name, each in host_devices(launcher.defined).items()}
        assert attached == {f"ua-gpu-{name}": address for name, address in zip(names, FUNCTIONS, strict=True)}
        assert all(guest_address(each) for each in host_devices(launcher.defined).values())


DISK = '<disk type="file"><target dev="vdb" bus="virtio"/><alias name="ua-theirs"/></disk>'
ARGUMENT = '<qemu:commandline><qemu:arg value="-theirs"/></qemu:commandline>'


def theirs(domain: bytes) -> bytes:
    """Add an argument and a disk where they are not there, as somebody's shell script would."""
    text = domain.decode()
    if '"-theirs"' not in text:
        text = re.sub(
            r"<domain [^>]*>", '<domain type="kvm" xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0">', text
        )
        text = text.replace("</domain>", f"{ARGUMENT}</domain>")
    return (text if "ua-theirs" in text else text.replace("</devices>", f"{DISK}</devices>")).encode()


@pytest.mark.parametrize("socket", ["a/a.sock", "z/z.sock"], ids=["before-ours", "after-ours"])
@pytest.mark.parametrize("release", ["v1.6", "v1.9"])
def test_hook_of_another_keeps_its_changes_and_sees_no_placeholder_after_ours(pod, release, socket):
    pod.allocate()
    pod.start(pod.environment(entry(request="vgpu")))
    with other_hook(pod.sockets / socket, edit=theirs) as other:
        launcher = Launcher(pod.sockets, RELEASES[release])
        launcher.collect(2)
        launcher.sync(small_domain(placeholder("gpu0"), NIC, GRAPHICS))
        seen = [domain for _, method, domain in other.calls if method == "OnDefineDomain"]
    assert len(launcher.passes) == len(seen) == 3
    root = parse(launcher.defined)
    assert [each.get("value") for each in root.iter("{http://libvirt.org/schemas/domain/qemu/1.0}arg")] == ["-theirs"]
    assert [alias(disk) for disk in root.iterfind("devices/disk")] == ["ua-disk", "ua-theirs"]
    assert source(host_devices(launcher.defined)["ua-gpu-gpu0"]) == {"uuid": A100_MDEV}
    if socket == "z/z.sock":
        assert [placeholder_names(domain) for domain in seen] == [[], [], []]


def test_two_hooks_of_others_on_both_sides(pod):
    pod.allocate()
    pod.start(pod.environment(entry(request="vgpu")))
    with other_hook(pod.sockets / "a/a.sock", edit=theirs), other_hook(pod.sockets / "z/z.sock", edit=theirs) as last:
        launcher = Launcher(pod.sockets, RELEASES["v1.8"])
        launcher.collect(3)
        launcher.sync(small_domain(placeholder("gpu0"), NIC, GRAPHICS))
        assert [version for version, _, _ in last.calls] == ["v1alpha3"] * 3
    assert launcher.defined.count(b'"-theirs"') == 1
    assert source(host_devices(launcher.defined)["ua-gpu-gpu0"]) == {"uuid": A100_MDEV}


def test_hook_of_another_that_breaks_the_domain_is_named_as_the_cause(pod):
    pod.allocate()
    pod.start(pod.environment(entry(request="vgpu")))
    with other_hook(pod.sockets / "a/a.sock", edit=lambda domain: domain[:-20]):
        launcher = Launcher(pod.sockets, RELEASES["v1.8"])
        launcher.collect(2)
        with pytest.raises(Exception, match="look at the hooks that change the domain before dravirt does"):
            launcher.sync(small_domain(placeholder("gpu0"), GRAPHICS))
