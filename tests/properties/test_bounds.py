"""Time and memory grow no faster than the input: ratios within one process, with room for a busy machine."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from support.admission import create, launcher_pod
from support.claimed import allocated, metadata_json
from support.domains import GRAPHICS, mdev, placeholder, small_domain
from support.hosttree import NodeTree
from support.reviews import review

from dra.errors import DravirtError
from dra.identity import MdevUUID, PciAddress
from dra.intent import Mode, read_intent
from dra.metadata import decode_metadata
from dra.request import parse_requests
from hooksidecar.display import Surroundings, choose_displays
from hooksidecar.domain import edit_domain
from hooksidecar.node import inspect
from hooksidecar.sysfs import HostTree
from hooksidecar.wire import decode, encode
from webhook import pod
from webhook.config import Config
from webhook.review import read_review
from webhook.yamltext import load

FACTOR = 8
"""How much larger the large input is."""
ROOM = 4
"""A square would be FACTOR times too slow."""


def edit(domain: bytes) -> None:
    with suppress(DravirtError):
        edit_domain(domain, [mdev("gpu0")], mode=Mode.PLACEHOLDER, vmi=None)


def annotation(text: str) -> None:
    with suppress(DravirtError):
        parse_requests(text, load, path="annotation")


def metadata(data: bytes) -> None:
    with suppress(DravirtError):
        decode_metadata(data, path="file")


def domain_of(size: int, part: str) -> bytes:
    return small_domain(placeholder("gpu0"), GRAPHICS, *[part.format(number) for number in range(size)])


def devices(size: int) -> bytes:
    found = [allocated(f"v{number}", mdevUUID=f"{number:08x}-5f0f-4b8e-9c6e-0d3b6f0a7a11") for number in range(size)]
    return metadata_json({"vgpu": found}).encode()


def pod_of(size: int) -> dict:
    item = launcher_pod()
    for kind in ("volumes", "initContainers"):
        item["spec"][kind] = [{"name": f"{kind}{number}", "env": [{"name": "x"}]} for number in range(size)]
    return item


def vmi_of(size: int) -> dict:
    gpus = [{"name": f"g{number}", "virtualGPUOptions": {"display": {}}} for number in range(size)]
    return {"spec": {"domain": {"devices": {"gpus": gpus}}}}


def intent_of(size: int) -> str:
    names = {f"d{number}.example": {"mdevUUID": ["a", "b"]} for number in range(size)}
    device = {"name": "a", "podClaim": "a", "template": "t"}
    return json.dumps({"version": 1, "devices": [device], "attributes": names})


NOTHING = Surroundings(graphics=True, display=False, ramfb=False)

WORK: dict[str, tuple[Callable[[int], object], Callable[..., object], int]] = {
    "domain-disks": (lambda size: domain_of(size, '<disk><alias name="d{}"/></disk>'), edit, 300),
    "domain-one-alias": (lambda size: domain_of(size, '<disk><alias name="d"/></disk>'), edit, 300),
    "domain-host-devices": (
        lambda size: domain_of(size, '<hostdev type="pci"><source><address bus="{0}"/></source></hostdev>'),
        edit,
        300,
    ),
    "domain-sources": (
        lambda size: small_domain(
            placeholder("gpu0"), "<hostdev><source>" + "<address/>" * size + "</source></hostdev>"
        ),
        edit,
        1000,
    ),
    "domain-text": (lambda size: small_domain(placeholder("gpu0"), "x" * size), edit, 100_000),
    "domain-comments": (lambda size: small_domain(placeholder("gpu0"), "<!---->" * size), edit, 1000),
    "domain-entities": (lambda size: small_domain("&amp;" * size, placeholder("gpu0")), edit, 10_000),
    "domain-attribute": (lambda size: small_domain(f'<x a="{"&#9;" * size}"/>', placeholder("gpu0")), edit, 10_000),
    "metadata-devices": (devices, metadata, 200),
    "metadata-attributes": (
        lambda size: metadata_json({"a": [allocated("v", **{f"a{n}": "x" for n in range(size)})]}).encode(),
        metadata,
        1000,
    ),
    "metadata-blanks": (lambda size: b"{}" + b" " * size + b"{}", metadata, 100_000),
    "metadata-objects": (lambda size: b"{}" * size, metadata, 20_000),
    "metadata-depth": (lambda size: b"[" * size, metadata, 20_000),
    "annotation-blanks": (lambda size: "- name: a" + " " * size, annotation, 20_000),
    "annotation-names": (lambda size: "- {name: " + "a" * size + "}", annotation, 10_000),
    "annotation-entries": (lambda size: "[" + "{name: a}," * size + "]", annotation, 300),
    "annotation-fields": (lambda size: "- {" + ",".join(f"a{n}: 1" for n in range(size)) + "}", annotation, 300),
    "annotation-digits": (lambda size: "- {name: " + "1" * size + "}", annotation, 10_000),
    "intent-attributes": (intent_of, lambda text: read_intent(text, path="intent"), 100),
    "vmi-gpus": (vmi_of, lambda vmi: choose_displays([mdev("g0")], vmi, NOTHING), 300),
    "review-pod": (
        lambda size: json.dumps(review(pod_of(size))).encode(),
        lambda body: read_review(body, group="", kind="Pod"),
        300,
    ),
    "pod": (pod_of, lambda item: pod.decide(create(item), Config()), 300),
    "wire": (lambda size: encode([(number + 1, b"x") for number in range(size)]), decode, 1000),
}


def seconds(call: Callable[[object], object], value: object) -> float:
    def once() -> float:
        started = time.process_time()
        call(value)
        return time.process_time() - started

    return min(once() for _ in range(5))


@pytest.mark.parametrize("name", WORK)
def test_time_grows_no_faster_than_the_input(name):
    make, call, size = WORK[name]
    small, large = make(size), make(size * FACTOR)
    assert seconds(call, large) <= FACTOR * ROOM * max(seconds(call, small), 0.0005)


def test_time_grows_no_faster_than_the_node(tmp_path):
    """A device of an IOMMU group with many others, on a board with many functions."""
    times = {}
    for size in (20, 20 * FACTOR):
        tree = NodeTree(tmp_path / str(size))
        addresses = [f"0000:{0x20 + number // 256:02x}:{number // 8 % 32:02x}.{number % 8}" for number in range(size)]
        for number, address in enumerate(addresses):
            tree.pci(address, device="0x1", driver="vfio-pci", group=7, virtfns={0: addresses[number - 1]})
        tree.nodes(7)
        times[size] = seconds(lambda tree: inspect(tree.fresh(), PciAddress(0, 0x20, 0, 0)), HostTree(tree.root))
    small, large = times.values()
    assert large <= FACTOR * ROOM * small


MEMORY = """
import sys
from pathlib import Path
from contextlib import suppress
from dra.errors import DravirtError
{imports}

def status(name):
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name + ":"))
    return int(line.split()[1]) * 1024

data = sys.stdin.buffer.read()
with suppress(DravirtError):
    {call}
Path("/proc/self/clear_refs").write_text("5")  # the peak is that of now
before = status("VmRSS")
with suppress(DravirtError):
    {call}
print((status("VmHWM") - before) / len(data))
"""
EDIT = (
    "from hooksidecar.domain import edit_domain; from dra.intent import Mode",
    "edit_domain(data, [], mode=Mode.PLACEHOLDER, vmi=None)",
)
DECODE = ("from dra.metadata import decode_metadata", "decode_metadata(data, path='x')")
LARGE = 1 << 20
MOST = {"domain": 80, "metadata": 40}
"""Bytes of memory for each byte of input. The worst are an empty element, of which four bytes become a node and its
proxy of 200, and an empty object of JSON, of which three become 64.
"""


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("domain", b"<domain><devices>" + b"<a/>" * (LARGE // 4) + b"</devices></domain>"),
        ("domain", b"<domain><devices/>" + b"x" * LARGE + b"</domain>"),
        ("domain", b"<!DOCTYPE d [" + b'<!ENTITY e "x">' * (LARGE // 15) + b"]><domain><devices/></domain>"),
        ("metadata", b"[" + b"{}," * (LARGE // 3) + b"{}]"),
        ("metadata", b'{"requests": [' + b"0," * (LARGE // 2) + b"0]}"),
        ("metadata", b'"' + b"x" * LARGE + b'"'),
    ],
    ids=["elements", "text", "entities", "objects", "numbers", "json-text"],
)
def test_memory_grows_no_faster_than_the_input(what, data):
    imports, call = EDIT if what == "domain" else DECODE
    program = MEMORY.format(imports=imports, call=call)
    done = subprocess.run([sys.executable, "-c", program], input=data, capture_output=True, check=True, timeout=60)
    assert float(done.stdout) <= MOST[what]


def test_billion_laughs_take_neither_time_nor_memory():
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "ha"}">' for n in range(12))
    bomb = f"<!DOCTYPE d [{entities}]><domain><devices/>&e11;</domain>".encode()
    assert seconds(edit, bomb) < 0.1


def test_uuids_are_short_whatever_is_read():
    with pytest.raises(ValueError, match="not a UUID") as error:
        MdevUUID.parse("a" * 10**6)
    assert len(str(error.value)) < 200
