"""A real libvirt in the process of the test: its QEMU driver as `qemu:///embed`, without a daemon and without root.

libvirt takes one root folder per process, and one process per root folder: `Libvirt.open` is called once.
Source: libvirt drvqemu, Embedded driver.
"""

import importlib.util
import os
import re
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import Any

MISSING = (
    "libvirt or QEMU is missing: `tests/integration/libvirt/install.sh .venv/bin/python` installs the packages "
    "libvirt-daemon-driver-qemu, qemu-system-x86 and libvirt-dev and the Python binding libvirt-python"
)
_CONFIGURATION = """\
security_driver = "none"
remember_owner = 0
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
"""
_LOG = "libvirt.log"
_AS_ROOT = 'user = "root"\ngroup = "root"\n'


def is_installed() -> bool:
    """True where libvirt's binding and QEMU are there."""
    return importlib.util.find_spec("libvirt") is not None and shutil.which("qemu-system-x86_64") is not None


class Rejected(Exception):
    """libvirt refuses a domain, in its own words."""


class Libvirt:
    """The QEMU driver. Nothing is started by it unless `connection` is used for that."""

    def __init__(self, api: Any, connection: Any, folder: Path) -> None:
        self.api = api
        """The module `libvirt`, which is there only where its library is."""
        self.connection = connection
        self.folder = folder

    @classmethod
    def open(cls, folder: Path | None = None) -> "Libvirt":
        """Return libvirt with its files in a new folder or the one given."""
        folder = folder or _short_folder()
        # Read when the library is loaded. An error says what libvirt refuses; only its log, what went wrong before.
        os.environ.setdefault("LIBVIRT_LOG_OUTPUTS", f"3:file:{folder / _LOG}")
        import libvirt

        (folder / "etc").mkdir()
        # As root, libvirt would run QEMU as a user of its own.
        configuration = _CONFIGURATION + (_AS_ROOT if os.geteuid() == 0 else "")
        (folder / "etc/qemu.conf").write_text(configuration)
        libvirt.registerErrorHandler(lambda *_: None, None)
        libvirt.virEventRegisterDefaultImpl()
        try:
            return cls(libvirt, libvirt.open(f"qemu:///embed?root={folder}"), folder)
        except libvirt.libvirtError:
            shutil.rmtree(folder)
            raise

    def log(self, lines: int = 30) -> str:
        """Return the last lines of its log: warnings and errors."""
        file = self.folder / _LOG
        return "\n".join(file.read_text(errors="replace").splitlines()[-lines:]) if file.exists() else ""

    def close(self) -> None:
        """Close it and remove its files."""
        self.connection.close()
        shutil.rmtree(self.folder)

    @property
    def version(self) -> tuple[int, int, int]:
        """The version of libvirt."""
        return _version(self.connection.getLibVersion())

    @property
    def qemu_version(self) -> tuple[int, int, int]:
        """The version of QEMU."""
        return _version(self.connection.getVersion())

    def keep(self, domain_xml: bytes) -> bytes:
        """Define a domain, return what libvirt keeps of it, and undefine it. Raises Rejected."""
        try:
            domain = self.connection.defineXML(domain_xml.decode())
        except self.api.libvirtError as error:
            raise Rejected(str(error)) from error
        try:
            return domain.XMLDesc(self.api.VIR_DOMAIN_XML_INACTIVE).encode()
        finally:
            domain.undefineFlags(self.api.VIR_DOMAIN_UNDEFINE_NVRAM)

    def qemu_arguments(self, domain_xml: bytes) -> list[str]:
        """Return the words of the command that would start QEMU for a domain. Raises Rejected."""
        try:
            return _words(self.connection.domainXMLToNative("qemu-argv", domain_xml.decode()))
        except self.api.libvirtError as error:
            raise Rejected(str(error)) from error


def _words(command: str) -> list[str]:
    """Split a command as a shell would. libvirt quotes with apostrophes; shlex alone takes as long as libvirt."""
    if "\\" in command:
        return shlex.split(command)
    return [word.replace("'", "") for word in re.findall(r"(?:'[^']*'|[^\s'])+", command)]


def _short_folder() -> Path:
    """Return a folder in memory, as definitions are synced to disk, and with a path short enough for its sockets."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="lv", dir=memory if os.access(memory, os.W_OK) else "/tmp"))


def _version(number: int) -> tuple[int, int, int]:
    return number // 1_000_000, number // 1000 % 1000, number % 1000
