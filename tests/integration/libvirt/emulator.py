"""QEMU with a stand-in for each VFIO device, since no machine of a test has one: emulator.py COMMANDS [ARGUMENT...].

libvirt starts it in QEMU's place. Each `vfio-pci` device of the command becomes a `pci-testdev` of the same name at the
same place, and all else is QEMU's own. What libvirt asked for is added to the file COMMANDS, a JSON list a line.
"""

import json
import os
import sys

QEMU = "/usr/bin/qemu-system-x86_64"


def without_vfio(word: str) -> str:
    """Return a word of the command, with the stand-in where it is a VFIO device."""
    if not word.startswith('{"driver":"vfio-pci'):
        return word
    device = json.loads(word)
    return json.dumps({"driver": "pci-testdev", **{name: device[name] for name in ("id", "bus", "addr")}})


if __name__ == "__main__":
    commands, *arguments = sys.argv[1:]
    if "-name" in arguments:  # else libvirt only asks what QEMU can do
        with open(commands, "a") as file:  # noqa: PTH123 (a start per domain and per question: no import too many)
            print(json.dumps(arguments), file=file)
    os.execv(QEMU, [QEMU, *map(without_vfio, arguments)])
