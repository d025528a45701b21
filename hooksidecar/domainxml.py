"""The libvirt domain as text: read as hostile input, written for KubeVirt, and the host devices that it names."""

import uuid
from collections.abc import Callable, Iterator

from lxml import etree

from dra.errors import Refused
from dra.identity import Identity, MdevUUID, PciAddress
from dra.reasons import Reason

Element = etree._Element  # noqa: SLF001 (lxml has no public name for the class of its nodes)

_BEFORE_XML = b"\xef\xbb\xbf \t\r\n"
"""A byte order mark and blanks, which may not stand before an XML declaration but do after some editors."""


def parse_domain(domain_xml: bytes) -> tuple[Element, Element]:
    """Return `<domain>` and the `<devices>` in it; comments, CDATA and processing instructions are kept.

    No entity is expanded and no file or network opened. Raises Refused, with no text of the document in it.
    """
    parser = etree.XMLParser(
        resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False, strip_cdata=False
    )
    try:
        domain = etree.fromstring(domain_xml.lstrip(_BEFORE_XML), parser)
    except etree.XMLSyntaxError as error:
        line, column = error.position
        raise _invalid(f"it is no well-formed XML at line {line}, column {column}") from None
    if domain.getroottree().docinfo.internalDTD is not None:
        raise _invalid("it has a DOCTYPE, which a libvirt domain never has")
    devices = domain.findall("devices")
    if domain.tag != "domain" or len(devices) != 1:
        raise _invalid("it must be a <domain> with one <devices>")
    return domain, devices[0]


def serialise(domain: Element) -> bytes:
    """Return the domain as UTF-8 without XML declaration.

    virt-launcher passes it to Go's encoding/xml, which reads UTF-8 only and refuses a declaration of anything else.
    """
    return etree.tostring(domain.getroottree(), encoding="UTF-8", xml_declaration=False)


def alias_of(element: Element) -> str | None:
    """Return the name of a device in the domain, None where it has none."""
    alias = element.find("alias")
    return None if alias is None else alias.get("name")


def host_devices(element: Element) -> Iterator[Identity]:
    """Yield the mediated device or PCI function of the host that a `<hostdev>` or `<interface>` attaches."""
    kind = (element.tag, element.get("type"))
    if kind == ("hostdev", "mdev"):
        read: Callable[[Element], Identity | None] = mdev_uuid
    elif kind in (("hostdev", "pci"), ("interface", "hostdev")):
        read = _pci_address
    else:
        return  # USB and SCSI addresses have a bus as well
    for address in element.iterfind("source/address"):
        if identity := read(address):
            yield identity


def mdev_uuid(address: Element) -> MdevUUID | None:
    """Return the UUID in `<address uuid=…>` if there is one.

    libvirt takes either case and dashes or blanks between any two digits. Source: virUUIDParse, src/util/viruuid.c.
    """
    digits = "".join(address.get("uuid", "").split())
    try:
        return MdevUUID(str(uuid.UUID(digits)))
    except ValueError:
        return None


def _pci_address(address: Element) -> PciAddress | None:
    """Return the address in `<address domain= bus= slot= function=>`; what is absent counts as 0, as with libvirt."""
    numbers = [_number(address.get(name) or "0") for name in ("domain", "bus", "slot", "function")]
    known = [number for number in numbers if number is not None]
    return PciAddress(*known) if len(known) == len(numbers) else None


def _number(text: str) -> int | None:
    """Return the number that C's strtoul reads with base 0: 0x3b, 073 (octal) or 59."""
    digits = text.strip().lower()
    base = 16 if digits.startswith("0x") else 8 if digits.startswith("0") else 10
    try:
        return int(digits, base)
    except ValueError:
        return None


def _invalid(cause: str) -> Refused:
    remedy = "look at the hooks that change the domain before dravirt does"
    return Refused(Reason.INVALID_DOMAIN, f"the domain XML cannot be edited: {cause}; {remedy}")
