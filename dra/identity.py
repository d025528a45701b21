"""What identifies a device on its node: the UUID of a mediated device or the address of a PCI function."""

import re
from dataclasses import dataclass
from typing import Self

from dra.contract import PLACEHOLDER_UUID_PREFIX

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# The domain has four digits or more: VMD domains have five (10001:80:05.0), NVML writes eight (00000000:3B:00.0).
_PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([01][0-9a-f])\.([0-7])")
_MAX_DOMAIN = 0x7FFFFFFF  # the largest that libvirt takes


@dataclass(frozen=True, slots=True, order=True)
class MdevUUID:
    """The UUID of a mediated device, lower-case."""

    value: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the UUID that `text` spells in any case. Raises ValueError."""
        value = text.lower()
        if not _UUID.fullmatch(value):
            raise ValueError(f"not a UUID (8-4-4-4-12 hexadecimal digits): {text[:80]!a}")
        return cls(value)

    def __str__(self) -> str:
        return self.value

    @property
    def is_placeholder(self) -> bool:
        """True for the UUIDs that stand in a domain until the sidecar rewrites it."""
        return self.value.startswith(PLACEHOLDER_UUID_PREFIX)


@dataclass(frozen=True, slots=True, order=True)
class PciAddress:
    """The address of a PCI function."""

    domain: int
    bus: int
    slot: int
    function: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the address that `text` spells: `0000:3b:00.4`, `3b:00.4`, `00000000:3B:00.4`. Raises ValueError."""
        match = _PCI.fullmatch(text.lower())
        if not match:
            raise ValueError(f"not a PCI address (domain:bus:slot.function, as 0000:3b:00.4): {text[:80]!a}")
        domain, bus, slot, function = (int(part or "0", 16) for part in match.groups())
        if domain > _MAX_DOMAIN:
            raise ValueError(f"PCI domain above {_MAX_DOMAIN:#x}: {text[:80]!a}")
        return cls(domain, bus, slot, function)

    def __str__(self) -> str:
        """Spell the address as sysfs does."""
        return f"{self.domain:04x}:{self.bus:02x}:{self.slot:02x}.{self.function:x}"


Identity = MdevUUID | PciAddress
