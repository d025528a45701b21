"""One libvirt for all tests of a process, and the matrix of what it said to each domain, in the terminal."""

from collections.abc import Iterator

import pytest
from support.libvirtembed import MISSING, Libvirt, is_installed
from support.libvirtkinds import KINDS
from support.libvirtmatrix import PROPERTY, Cell, matrix
from support.required import require


def pytest_runtest_setup(item: pytest.Item) -> None:
    if "libvirt" in getattr(item, "fixturenames", ()):
        require(is_installed(), MISSING)


@pytest.fixture(scope="session")
def libvirt() -> Iterator[Libvirt]:
    """The one libvirt of this process."""
    opened = Libvirt.open()
    yield opened
    opened.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for of_outcome in ("passed", "failed") for report in terminalreporter.getreports(of_outcome)]
    cells = [
        Cell.from_json(str(value))
        for report in reports
        for name, value in report.user_properties
        if name == PROPERTY and report.when == "call"
    ]
    if cells:
        terminalreporter.section("libvirt and QEMU on every domain")
        for line in matrix(cells, list(KINDS)):
            terminalreporter.write_line(line)
