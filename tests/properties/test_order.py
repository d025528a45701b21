"""Order decides nothing: names, aliases and displays stay with their devices, however sources and files are ordered."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from support.claimed import allocated, entry, intent, template_folder, write_metadata
from support.domains import GRAPHICS, host_devices, placeholder, shown, small_domain, source

from dra.intent import Mode
from hooksidecar.domain import edit_domain
from hooksidecar.environment import Environment
from hooksidecar.metadatafiles import MetadataFiles
from hooksidecar.resolver import resolve

SOME = settings(max_examples=60, deadline=None, database=None)

REQUESTS = {"a": ("one.example", "two.example"), "b": ("one.example",)}
DEVICES = [
    (request, driver, pool, name)
    for request, drivers in REQUESTS.items()
    for driver in drivers
    for pool in ("node-1", "node-10", "node-2")
    for name in ("v1", "v10", "v2")
]
UUIDS = {key: f"3f0e2a54-6c1d-4b7a-9f33-0c5d1e2b7a{number:02x}" for number, key in enumerate(DEVICES)}
OF_A, OF_B = ([key for key in DEVICES if key[0] == request] for request in "ab")
ENTRIES = [
    entry("x", request="a", count=len(OF_A), podClaim="dravirt-x", display=True),
    entry("y", request="b", count=len(OF_B), podClaim="dravirt-x", display=False),
]
NAMES = [*(f"x-{number}" for number in range(len(OF_A))), *(f"y-{number}" for number in range(len(OF_B)))]
DOMAIN = small_domain(GRAPHICS, *[placeholder(name, number) for number, name in enumerate(NAMES)])


def attach(order, files, entries, *, environment_first):
    """Return what each alias of the domain attaches and shows, when all is written and asked in this order."""
    with TemporaryDirectory() as folder:
        for request, driver in files:
            keys = [key for key in order if key[:2] == (request, driver)]
            listed = [allocated(key[3], driver=driver, pool=key[2], mdevUUID=UUIDS[key]) for key in keys]
            write_metadata(template_folder(Path(folder), request, pod_claim="dravirt-x"), *listed, driver=driver)
        sources = [MetadataFiles(Path(folder)), Environment({}, {})]
        devices = resolve(intent(*entries), sources[::-1] if environment_first else sources)
    domain = edit_domain(DOMAIN, devices, mode=Mode.PLACEHOLDER, vmi=None)
    return {alias: (source(each)["uuid"], *shown(each)) for alias, each in host_devices(domain).items()}


EXPECTED = {
    f"ua-gpu-{name}": (UUIDS[key], "on" if name[0] == "x" else None, "on" if name == "x-0" else None)
    for name, key in zip(NAMES, sorted(OF_A) + sorted(OF_B), strict=True)
}


@SOME
@given(
    order=st.permutations(DEVICES),
    files=st.permutations([(request, driver) for request, drivers in REQUESTS.items() for driver in drivers]),
    entries=st.permutations(ENTRIES),
    environment_first=st.booleans(),
)
def test_names_aliases_and_displays_never_move(order, files, entries, environment_first):
    assert attach(order, files, entries, environment_first=environment_first) == EXPECTED


@SOME
@given(values=st.permutations([UUIDS[key] for key in OF_B]), split=st.integers(0, len(OF_B)), swapped=st.booleans())
def test_order_of_variables_and_their_values_decides_nothing(values, split, swapped):
    variables = {
        "MDEV_PCI_RESOURCE_A": ",".join(values[:split]),
        "MDEV_PCI_RESOURCE_B": " , ".join(values[split:]),
    }
    if swapped:
        variables = dict(reversed(variables.items()))
    devices = resolve(intent(entry("y", count=len(OF_B))), [Environment(variables, {})])
    assert [str(device.identity) for device in devices] == sorted(values)
    assert [device.name for device in devices] == [f"y-{number}" for number in range(len(OF_B))]
