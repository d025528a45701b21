"""Quantities as Kubernetes spells them: read exactly, compared by value, and never guessed."""

from decimal import Decimal

import pytest

from webhook.quantity import GI, is_quantity, parse_quantity, plus, same_quantity

GOOD = {
    "0": "0",
    "1": "1",
    "0.5": "0.5",
    "1.": "1",
    ".5": "0.5",
    "+1": "1",
    "200m": "0.2",
    "15u": "0.000015",
    "3n": "0.000000003",
    "1k": "1000",
    "64M": "64000000",
    "1E": "1000000000000000000",
    "1Ki": "1024",
    "9508Mi": "9969860608",
    "2Gi": "2147483648",
    "1e3": "1000",
    "1E3": "1000",
    "12e-1": "1.2",
    "1e+2": "100",
}
BAD = [
    "",
    " ",
    "1 ",
    " 1",
    "-1",
    "--1",
    "1Mib",
    "1mi",
    "1K",
    "0x10",
    "1e",
    "1e100",
    "Mi",
    ".",
    "1,5",
    "\u0661",
    "1\n",
    "NaN",
]


@pytest.mark.parametrize(("text", "value"), GOOD.items(), ids=GOOD)
def test_quantity_has_its_value(text: str, value: str):
    assert parse_quantity(text) == Decimal(value)
    assert is_quantity(text)


@pytest.mark.parametrize("number", [0, 4, 2.5, 10**29])
def test_number_is_a_quantity(number: float):
    assert parse_quantity(number) == Decimal(str(number))


@pytest.mark.parametrize(
    "value", [*BAD, None, True, [], {}, "9" * 5000, 10**5000, float("nan")], ids=lambda v: repr(type(v))
)
def test_anything_else_is_no_quantity(value: object):
    with pytest.raises(ValueError, match=r"not a Kubernetes quantity|digits"):
        parse_quantity(value)
    assert not is_quantity(value)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [("1", "1000m", True), ("1Gi", "1024Mi", True), (4, "4", True), ("1G", "1Gi", False), ("x", "x", False)],
)
def test_quantities_are_compared_by_value(one: object, other: object, same: bool):
    assert same_quantity(one, other) is same


@pytest.mark.parametrize(
    ("quantity", "sum_"),
    [
        ("8484Mi", "9508Mi"),
        ("2Gi", "3072Mi"),
        ("11167334401", "12241076225"),
        ("64M", "1137741824"),
        ("1200m", "1073741826"),
    ],
)
def test_a_gibibyte_more_is_exact_and_rounded_up_to_bytes(quantity: str, sum_: str):
    assert plus(quantity, GI) == sum_
    assert parse_quantity(sum_) - parse_quantity(quantity) - GI in (0, Decimal("0.8"))


def test_nothing_is_added_to_what_is_no_quantity():
    with pytest.raises(ValueError, match="not a Kubernetes quantity"):
        plus("much", GI)
