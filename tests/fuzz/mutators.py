"""Mutations by structure, where random bytes would hardly ever be read: of domains, and of JSON."""

import copy
import json
import random
from collections.abc import Callable, Mapping
from typing import Any

from lxml import etree

Mutator = Callable[[bytes, random.Random], bytes | None]
"""Makes another input of one, None where it cannot be read."""

_TAGS = (
    "hostdev",
    "devices",
    "source",
    "address",
    "alias",
    "graphics",
    "video",
    "model",
    "interface",
    "domain",
    "{u}x",
)
_NAMES = ("type", "mode", "managed", "model", "display", "ramfb", "uuid", "domain", "bus", "slot", "function", "name")
_TEXTS = (
    *("on", "off", "", "mdev", "pci", "ramfb", "vfio-ap", "0", "0x18", "-1", "9" * 5000, "0xzz", "<&>\"'", "\t\n"),
    *("ua-gpu-a", "ua-gpu-b", "ua-dravirt-a", "ua-dravirt-b", "B0A6F6EC5F0F4B8E9C6E0D3B6F0A7A01"),
    *("00000000-0000-4000-8000-000000000000", "0000000000004000 8000000000000000"),
)
_WORDS = (*_TEXTS, None, True, False, 0, -1, 10**30, 1.5, "0000:3b:00.4", "gpu/big", "vgpu", "a.example", "\ud800")


def mutate_xml(data: bytes, chance: random.Random) -> bytes | None:
    """Rename, set, remove, copy or move nodes of a document."""
    try:
        root = etree.fromstring(data, etree.XMLParser(resolve_entities=False, strip_cdata=False))
    except (etree.XMLSyntaxError, ValueError):
        return None
    nodes = [node for node in root.iter() if isinstance(node.tag, str)]
    node, other = chance.choice(nodes), chance.choice(nodes)
    match chance.randrange(7):
        case 0:
            node.tag = chance.choice(_TAGS)
        case 1 | 2:
            node.set(chance.choice(_NAMES), chance.choice(_TEXTS))
        case 3 if node.attrib:
            del node.attrib[chance.choice(list(node.attrib))]
        case 4 if node.getparent() is not None:
            node.getparent().remove(node)
        case 5:
            other.insert(chance.randrange(5), copy.deepcopy(node))
        case _:
            notes = [etree.Comment("x"), etree.ProcessingInstruction("x", "y"), etree.Element(chance.choice(_TAGS))]
            node.insert(chance.randrange(3), chance.choice(notes))
    return etree.tostring(root)


def mutate_json(data: bytes, chance: random.Random) -> bytes | None:
    """Replace, remove, copy or move values of a document."""
    try:
        value = json.loads(data)
        places = list(_places(value))
        if not places:
            return None
        parent, key = chance.choice(places)
        match chance.randrange(4):
            case 0:
                del parent[key]
            case 1:
                parent[key] = copy.deepcopy(chance.choice(places)[0])
            case 2 if isinstance(parent, list):
                parent.append(copy.deepcopy(parent[key]))
            case _:
                parent[key] = chance.choice(_WORDS)
        return json.dumps(value).encode()
    except (ValueError, RecursionError):
        return None


def _places(value: Any) -> list[tuple[Any, Any]]:
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in ((value, key), *_places(value[key]))]


MUTATORS: Mapping[str, Mutator] = {
    "domain": mutate_xml,
    "vmi": mutate_json,
    "metadata": mutate_json,
    "intent": mutate_json,
    "review": mutate_json,
}
