"""docs/drivers.md names the attributes that are read."""

from support.examples import ROOT, fenced
from support.markdown import codes, rows, section

from dra.attributes import DEFAULT_NAMES, KNOWN_DRIVERS
from dra.contract import METADATA_DIR
from dra.metadata import KNOWN_VERSIONS

PAGE = ROOT / "docs" / "drivers.md"


def test_the_table_of_attributes_is_the_one_in_use():
    shown = {row[0].strip("`"): row[1:] for row in rows(section(PAGE, "## Which attribute holds the device"))}
    known = {"any other": DEFAULT_NAMES, **KNOWN_DRIVERS}
    assert sorted(shown) == sorted(known)
    for driver, names in known.items():
        cells = tuple(tuple(codes(cell)) for cell in shown[driver])
        assert cells == (names.mdev_uuid, names.pci_address, names.profile), driver


def test_the_folder_and_the_versions_of_metadata_are_those_that_are_read():
    text = section(PAGE, "## What a driver must do")
    assert all(line.startswith(f"{METADATA_DIR}/resourceclaim") for line in fenced(text, "")[0].splitlines())
    assert all(version.removeprefix("metadata.resource.k8s.io/") in text for version in KNOWN_VERSIONS)
