"""Whatever domain comes in: an edit that holds every rule comes out, or Refused. Domains are mutated by structure."""

import random
import time
import timeit
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml import etree
from support import domains
from support.domains import GRAPHICS, mdev, passthrough, placeholder, small_domain, vgpu_vf

from dra.device import Device
from dra.errors import Refused
from dra.intent import Mode
from hooksidecar.domain import edit_domain

OTHER = placeholder("x").replace("ua-gpu-x", "ua-hostdevice-nic").replace('type="mdev"', 'type="pci"')
OTHER = OTHER.replace('uuid="00000000-0000-4000-8000-000000000000"', 'type="pci" bus="0x41"')
OURS = placeholder("c").replace("ua-gpu-", "ua-dravirt-").replace("00000000-0000-4000", "aa618089-8b16-4d01")
VIDEO = '<video><model type="vga"/></video>'
SEED = small_domain(
    GRAPHICS, VIDEO, OTHER, placeholder("a", 0, display=' display="on" ramfb="on"'), placeholder("b", 1), OURS
)
WITHOUT_PLACEHOLDERS = SEED.replace(b"00000000-0000-4000-8000-", b"11111111-0000-4000-8000-")
TAGS = ["hostdev", "devices", "source", "address", "alias", "graphics", "video", "model", "domain", "x", "{u}x"]
NAMES = ["type", "mode", "managed", "model", "display", "ramfb", "uuid", "domain", "bus", "slot", "function", "name"]
VALUES = [
    *("on", "off", "", "mdev", "pci", "hostdev", "ramfb", "vfio-ap", "0", "0x18", "-1", "9" * 5000, "0xzz", "\u0660"),
    *("ua-gpu-a", "ua-gpu-b", "ua-dravirt-a", "ua-dravirt-c", "00000000-0000-4000-8000-000000000000"),
    *("0000000000004000800000000000000a", "b0a6f6ec-5f0f-4b8e-9c6e-0d3b6f0a7a01", "<&>\"'", "\t\n"),
]

Mutation = Callable[[Any, random.Random], None]


def _any(root: Any, chance: random.Random) -> Any:
    return chance.choice([node for node in root.iter() if isinstance(node.tag, str)])


def _rename(root: Any, chance: random.Random) -> None:
    _any(root, chance).tag = chance.choice(TAGS)


def _set(root: Any, chance: random.Random) -> None:
    _any(root, chance).set(chance.choice(NAMES), chance.choice(VALUES))


def _unset(root: Any, chance: random.Random) -> None:
    node = _any(root, chance)
    if node.attrib:
        del node.attrib[chance.choice(list(node.attrib))]


def _remove(root: Any, chance: random.Random) -> None:
    node = _any(root, chance)
    if node.getparent() is not None:
        node.getparent().remove(node)


def _copy(root: Any, chance: random.Random) -> None:
    copy = etree.fromstring(etree.tostring(_any(root, chance)))
    _any(root, chance).insert(chance.randrange(9), copy)


def _wrap(root: Any, chance: random.Random) -> None:
    _any(root, chance).append(etree.Element(chance.choice(TAGS)))


def _note(root: Any, chance: random.Random) -> None:
    notes = [etree.Comment("x"), etree.ProcessingInstruction("x", "y"), etree.Comment("<hostdev/>")]
    _any(root, chance).insert(chance.randrange(4), chance.choice(notes))


def _text(root: Any, chance: random.Random) -> None:
    node = _any(root, chance)
    node.text = chance.choice(["", "\n", "text", "<![CDATA[", etree.CDATA("<x>")])


MUTATIONS: list[Mutation] = [_rename, _set, _set, _unset, _remove, _copy, _wrap, _note, _text]

wishes = st.sampled_from([None, None, True, False])


def device(name: str, number: int) -> Any:
    """Return a strategy for the device of that name: every kind, every wish."""
    return st.builds(
        lambda make, display, ramfb: make(name, number, display=display, ramfb=ramfb),
        st.sampled_from([mdev, mdev, vgpu_vf, passthrough]),
        wishes,
        wishes,
    )


choices = st.tuples(device("a", 1), device("b", 2)) | st.tuples(device("a", 1), device("c", 3)) | st.just(())
json = st.recursive(
    st.none() | st.booleans() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
options = st.fixed_dictionaries({}, optional={"display": st.fixed_dictionaries({}, optional={"enabled": json}) | json})
gpus = st.lists(st.fixed_dictionaries({"name": st.sampled_from("abc"), "virtualGPUOptions": options | json}) | json)
vmis = st.none() | gpus.map(lambda found: {"spec": {"domain": {"devices": {"gpus": found}}}})


def edit_or_refuse(domain: bytes, chosen: Sequence[Device], mode: Mode, vmi: Any) -> bytes | None:
    """Return the answer, whose rules are checked, or None where the edit was refused."""
    try:
        answer = edit_domain(domain, chosen, mode=mode, vmi=vmi)
    except Refused:
        return None
    prefix = "ua-gpu-" if mode is Mode.PLACEHOLDER else "ua-dravirt-"
    ours = {prefix + device.name: device for device in chosen}
    root = domains.parse(answer)
    found = [element for element in root.findall("devices/hostdev") if domains.alias(element) in ours]
    assert sorted(ours) == sorted(domains.alias(element) for element in found)
    check_displays(root, found)
    uuids = [address.get("uuid", "") for address in root.iterfind("devices/hostdev/source/address")]
    assert not any(uuid.replace("-", "").startswith("00000000000040008000") for uuid in uuids)
    appended = mode is Mode.APPEND
    assert domains.outside(answer, ours, appended=appended) == domains.outside(domain, ours, appended=appended)
    assert edit_domain(answer, chosen, mode=mode, vmi=vmi) == answer
    return answer


def check_displays(root: Any, ours: list[Any]) -> None:
    """No display without graphics, no ramfb without display, one ramfb with ours at most."""
    for element in ours:
        assert element.get("display") is None or root.find("devices/graphics") is not None
        assert element.get("ramfb") is None or element.get("display") == "on"
    with_ramfb = [element for element in root.findall("devices/hostdev") if element.get("ramfb") == "on"]
    assert len(with_ramfb) <= 1 or not any(element in ours for element in with_ramfb)


@settings(max_examples=400, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    steps=st.integers(0, 6),
    chosen=choices,
    mode=st.sampled_from(Mode),
    vmi=vmis,
)
@example(seed=0, steps=0, chosen=(mdev("a", 1), vgpu_vf("b", 2)), mode=Mode.PLACEHOLDER, vmi=None)
def test_mutated_domain_is_edited_by_the_rules_or_refused(seed, steps, chosen, mode, vmi):
    chance = random.Random(seed)
    root = domains.parse(SEED if mode is Mode.PLACEHOLDER else WITHOUT_PLACEHOLDERS)
    for _ in range(steps):
        chance.choice(MUTATIONS)(root, chance)
    edit_or_refuse(etree.tostring(root), chosen, mode, vmi)


@settings(max_examples=200, deadline=None)
@given(
    cut=st.integers(0, len(SEED)),
    length=st.integers(0, 20),
    junk=st.binary(max_size=12) | st.sampled_from([b"<!DOCTYPE x>", b"<!--", b"]]>", b"&x;", b"<?xml?>", b"\xff\xfe"]),
)
def test_damaged_text_is_edited_by_the_rules_or_refused(cut, length, junk):
    damaged = SEED[:cut] + junk + SEED[cut + length :]
    edit_or_refuse(damaged, [mdev("a", 1), mdev("b", 2)], Mode.PLACEHOLDER, None)


@settings(max_examples=100, deadline=None)
@given(
    kinds=st.lists(st.sampled_from([mdev, vgpu_vf, passthrough]), min_size=1, max_size=6),
    order=st.randoms(use_true_random=False),
)
def test_order_of_devices_and_places_is_theirs_alone(kinds, order):
    """The places keep their order, whatever order the devices are given in."""
    chosen = [make(f"gpu-{number}", number) for number, make in enumerate(kinds)]
    places = [placeholder(device.name, number) for number, device in enumerate(chosen)]
    order.shuffle(places)
    domain = small_domain(GRAPHICS, *places)
    answer = edit_or_refuse(domain, chosen, Mode.PLACEHOLDER, None)
    assert answer is not None
    order.shuffle(chosen)
    assert edit_domain(domain, chosen, mode=Mode.PLACEHOLDER, vmi=None) == answer


def test_seed_itself_is_edited_in_both_modes():
    """The mutations start from a domain in which every rule has something to do."""
    chosen = [mdev("a", 1), vgpu_vf("b", 2)]
    assert edit_or_refuse(SEED, chosen, Mode.PLACEHOLDER, None) is not None
    assert edit_or_refuse(WITHOUT_PLACEHOLDERS, [mdev("c", 1), vgpu_vf("d", 2)], Mode.APPEND, None) is not None


def test_time_grows_no_faster_than_the_domain():
    small, large = (
        small_domain(*[OTHER.replace("nic", f"nic-{i}").replace("0x41", f"{i}") for i in range(size)])
        for size in (500, 4000)
    )
    chosen = [mdev(f"gpu-{i}", i) for i in range(32)]

    def seconds(domain: bytes) -> float:
        def edit() -> bytes:
            return edit_domain(domain, chosen, mode=Mode.APPEND, vmi=None)

        assert edit().count(b"ua-dravirt-") == 32
        return min(timeit.repeat(edit, number=1, repeat=3, timer=time.process_time))

    assert seconds(large) < 4 * 8 * seconds(small)  # a square would be 64 times
