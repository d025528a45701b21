"""The parts of a host file tree: what the kernel shows of a PCI function, a mediated device or a vGPU, as files.

Every link is relative, every file ends in a newline and no folder is empty, so that a tree can be moved and kept in
git. Device nodes are empty files.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

NVIDIA, AMD, INTEL = "0x10de", "0x1002", "0x8086"
DISPLAY, ACCELERATOR = "0x030200", "0x120000"
NO_GPU_INSTANCE = 4294967295


class NodeTree:
    """A folder that holds a host's `sys/` and `dev/`. All paths are relative to it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: object) -> None:
        """Write a file of one or more lines."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def link(self, path: str, target: str) -> None:
        """Make a relative link from `path` to `target`, both below the root; no link may lie on the way to `path`."""
        link = self.root / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.relpath(target, Path(path).parent))

    def remove(self, path: str) -> None:
        """Remove what `path` names: a file, a link or a folder with all that is in it."""
        entry = self.root / path
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()

    def real(self, path: str) -> str:
        """Return where `path` leads after all links."""
        return str((self.root / path).resolve(strict=True).relative_to(self.root.resolve()))

    def function(self, address: str) -> str:
        """Return the folder of a PCI function that is there."""
        return self.real(f"sys/bus/pci/devices/{address}")

    def nodes(self, *groups: int) -> None:
        """Give the pod the VFIO nodes of IOMMU groups."""
        for name in ("vfio", *groups):
            self.write(f"dev/vfio/{name}", "")

    def driver(self, device: str, driver: str, bus: str = "pci") -> None:
        """Bind the device at `device` to a driver, or to another one."""
        self.link(f"{device}/driver", f"sys/bus/{bus}/drivers/{driver}")
        self.link(f"sys/bus/{bus}/drivers/{driver}/{Path(device).name}", device)

    def group(self, device: str, group: int | str) -> None:
        """Put the device at `device` into an IOMMU group."""
        self.link(f"{device}/iommu_group", f"sys/kernel/iommu_groups/{group}")
        self.link(f"sys/kernel/iommu_groups/{group}/devices/{Path(device).name}", device)

    def vfio_dev(self, device: str, number: int) -> None:
        """Make the device at `device` a VFIO one, as a kernel of 6.1 or later shows it."""
        self.write(f"{device}/vfio-dev/vfio{number}/dev", f"511:{number}")
        self.write(f"dev/vfio/devices/vfio{number}", "")

    def pci(
        self,
        address: str,
        *,
        device: str,
        vendor: str = NVIDIA,
        pci_class: str = DISPLAY,
        bridge: str | None = None,
        driver: str | None = None,
        group: int | None = None,
        vfio: int | None = None,
        physfn: str | None = None,
        virtfns: Mapping[int, str] | None = None,
        totalvfs: int | None = None,
    ) -> str:
        """Add a PCI function, behind a bridge on the bus before its own; return its folder.

        `vfio` is the number of its VFIO device, `physfn` the address of its physical function, `virtfns` the addresses
        of its virtual ones by number, and `totalvfs` how many of them it can have.
        """
        folder = f"sys/devices/{bridge or _bridge(address)}/{address}"
        attributes = {"vendor": vendor, "device": device, "class": pci_class, "numa_node": 0}
        for name, value in attributes.items():
            self.write(f"{folder}/{name}", value)
        self.link(f"sys/bus/pci/devices/{address}", folder)
        if driver is not None:
            self.driver(folder, driver)
        if group is not None:
            self.group(folder, group)
        if vfio is not None:
            self.vfio_dev(folder, vfio)
        if physfn is not None:
            self.link(f"{folder}/physfn", f"{folder}/../{physfn}")
        for number, virtual in (virtfns or {}).items():
            self.link(f"{folder}/virtfn{number}", f"{folder}/../{virtual}")
        if totalvfs is not None:
            self.write(f"{folder}/sriov_totalvfs", totalvfs)
            self.write(f"{folder}/sriov_numvfs", totalvfs if virtfns else 0)
        return folder

    def mdev_type(self, parent: str, type_folder: str, name: str, description: str, *, available: int = 0) -> str:
        """Add a type of mediated device to the PCI function at `parent`; return its folder."""
        folder = f"{parent}/mdev_supported_types/{type_folder}"
        attributes = {
            "name": name,
            "available_instances": available,
            "device_api": "vfio-pci",
            "description": description,
            "create": "",
        }
        for attribute, value in attributes.items():
            self.write(f"{folder}/{attribute}", value)
        self.link(f"sys/class/mdev_bus/{Path(parent).name}", parent)
        return folder

    def mdev(self, parent: str, uuid: str, type_folder: str, *, group: int) -> str:
        """Add a mediated device of a type of the PCI function at `parent`; return its folder."""
        folder = f"{parent}/{uuid}"
        self.link(f"{folder}/mdev_type", type_folder)
        self.link(f"{type_folder}/devices/{uuid}", folder)
        self.link(f"sys/bus/mdev/devices/{uuid}", folder)
        self.driver(folder, "nvidia-vgpu-vfio", bus="mdev")
        self.group(folder, group)
        for name in ("vgpu_params", "vm_name"):
            self.write(f"{folder}/nvidia/{name}", "")
        return folder

    def vgpu(self, function: str, *, current: int, creatable: str, instance: int = NO_GPU_INSTANCE) -> None:
        """Give the virtual function at `function` the files of NVIDIA's vendor-specific VFIO framework."""
        attributes = {
            "current_vgpu_type": current,
            "creatable_vgpu_types": creatable,
            "gpu_instance_id": instance,
            "placement_id": 0,
            "vgpu_params": "",
            "warm_update": 0,
        }
        for name, value in attributes.items():
            self.write(f"{function}/nvidia/{name}", value)


def _bridge(address: str) -> str:
    domain, bus, _ = address.split(":")
    before = f"{domain}:{int(bus, 16) - 1:02x}"
    return f"pci{before}/{before}:00.0"
