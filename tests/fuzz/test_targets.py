"""The targets of the fuzzer with their seeds and with all that was ever found, without the fuzzer."""

from pathlib import Path

import pytest

from fuzz.targets import TARGETS

HERE = Path(__file__).parent
INPUTS = sorted(path for folder in ("seeds", "findings") for path in (HERE / folder).glob("*/*"))


@pytest.mark.parametrize("file", INPUTS, ids=lambda file: f"{file.parent.name}-{file.name}")
def test_input_breaks_no_rule(file):
    TARGETS[file.parent.name](file.read_bytes())


@pytest.mark.parametrize("target", TARGETS)
def test_target_has_seeds(target):
    assert list((HERE / "seeds" / target).iterdir())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xfe", b"<", b"{", b"[" * 40_000, b"- " * 20_000, b"<a>" * 5_000])
def test_hostile_bytes_break_no_rule(target, data):
    TARGETS[target](data)
