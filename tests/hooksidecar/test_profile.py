"""The names of vGPU types."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooksidecar.profile import mig_backed, parse_creatable_types, parse_type_id


@pytest.mark.parametrize(
    "profile",
    [
        "GRID A100-1-5C",
        "NVIDIA A100-1-5C",
        "GRID A100D-1-10C",
        "NVIDIA A30-1-6C",
        "GRID A100-1-5CME",
        "NVIDIA H100XM-1-10CME",
        "NVIDIA H100XM-7-80C",
        "NVIDIA H200X-1-18C",
        "NVIDIA RTX Pro 6000 Blackwell DC-1-24Q",
        "NVIDIA RTX Pro 6000 Blackwell DC-4-96QGFX",
        "A100-2-10C",
    ],
)
def test_a_profile_with_slices_is_mig_backed(profile: str) -> None:
    assert mig_backed(profile) is True


@pytest.mark.parametrize(
    "profile",
    [
        "GRID T4-2Q",
        "GRID T4-2B4",
        "GRID M60-0B",
        "GRID A100-4C",
        "NVIDIA A40-24A",
        "NVIDIA L40S-24Q",
        "NVIDIA H200X-141C",
        "NVIDIA RTX6000-Ada-48Q",
        "NVIDIA RTX Pro 6000 Blackwell DC-48C",
        "A40-12Q",
    ],
)
def test_a_profile_without_slices_is_time_sliced(profile: str) -> None:
    assert mig_backed(profile) is False


@pytest.mark.parametrize(
    "profile",
    [
        None,
        "",
        "  ",
        "NVIDIA A100-SXM4-40GB",
        "NVIDIA",
        "5c",
        "1g.5gb",
        "vgpu-gpu-0-5c-p0",
        "A100-0-5C",
        "A100-1-05C",
        "A100-1-5D",
        "A100-1-5C\N{ARABIC-INDIC DIGIT TWO}",
        "GRID a100-1-5c",
        "A100-1-5C NVIDIA",
    ],
)
def test_any_other_name_tells_nothing(profile: str | None) -> None:
    assert mig_backed(profile) is None


L40S = {1145: "NVIDIA L40S-1B", 1155: "NVIDIA L40S-24Q", 1156: "NVIDIA L40S-48Q"}


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("ID    : vGPU Name\n1145  : NVIDIA L40S-1B\n1155  : NVIDIA L40S-24Q\n1156  : NVIDIA L40S-48Q\n", L40S),
        (
            "1428 : NVIDIA H200X-141C\n1414 : NVIDIA H200X-1-18C\n",
            {1428: "NVIDIA H200X-141C", 1414: "NVIDIA H200X-1-18C"},
        ),
        ("ID    : vGPU Name\n", {}),
        ("", {}),
        ("  7:a\r\n8 :  b  c \n", {7: "a", 8: "b  c"}),
        ("1155\n1156 :\n: NVIDIA L40S-1B\n-3 : x\n1.5 : y\n99999999999 : z\n\N{SUPERSCRIPT TWO} : q\n", {}),
        ("7 : first\n7 : second\n", {7: "first"}),
        ("7 : a: b\n", {7: "a: b"}),
    ],
    ids=["header", "no-header", "header-only", "empty", "odd-space", "no-ids", "twice", "colon-in-name"],
)
def test_creatable_types_are_the_lines_with_an_id(text: str, types: dict[int, str]) -> None:
    assert parse_creatable_types(text) == types


@given(st.dictionaries(st.integers(0, 2**32 - 1), st.from_regex(r"[A-Z][A-Z0-9 -]{0,20}[A-Z0-9]", fullmatch=True)))
def test_every_listed_type_is_read_with_and_without_the_header(types: dict[int, str]) -> None:
    lines = "".join(f"{type_id}  : {name}\n" for type_id, name in types.items())

    assert parse_creatable_types(lines) == types
    assert parse_creatable_types("ID    : vGPU Name\n" + lines) == types


@given(st.text())
def test_no_text_breaks_the_parsers(text: str) -> None:
    parse_creatable_types(text)
    assert mig_backed(text) in (True, False, None)


@pytest.mark.parametrize(
    ("text", "type_id"),
    [
        ("0", 0),
        ("1155", 1155),
        ("4294967295", 2**32 - 1),
        ("", None),
        ("0x619", None),
        ("-1", None),
        ("9" * 5000, None),
    ],
)
def test_a_type_id_is_decimal(text: str, type_id: int | None) -> None:
    assert parse_type_id(text) == type_id
