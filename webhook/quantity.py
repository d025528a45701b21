"""Kubernetes quantities, as far as resources of containers need them.

Source: k8s.io/apimachinery/pkg/api/resource, quantity.go.
"""

import re
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Final

GI: Final = 2**30

_SUFFIXES: Final = {
    "": Decimal(1),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate(["n", "u", "m"], start=-3)},
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate(["k", "M", "G", "T", "P", "E"], start=1)},
    **{suffix: Decimal(1024) ** power for power, suffix in enumerate(["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"], start=1)},
}
_NUMBER: Final = r"[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30}"
_QUANTITY: Final = re.compile(rf"\+?({_NUMBER})(?:[eE]([+-]?[0-9]{{1,2}})|([numkMGTPE]|[KMGTPE]i)?)")
_LONGEST: Final = 80  # more than the pattern takes: a longer text, cut here, is none either


def parse_quantity(value: object) -> Decimal:
    """Return the value of a quantity, which may be text or a number. Raises ValueError; a negative one is none here."""
    if isinstance(value, str | int | float):
        return _parse(str(value)[:_LONGEST])
    raise ValueError(f"not a Kubernetes quantity: {value!r:.80}")


@lru_cache(maxsize=1024)  # the same few come by with every pod
def _parse(text: str) -> Decimal:
    match = _QUANTITY.fullmatch(text)
    if not match:
        raise ValueError(f"not a Kubernetes quantity: {text!r}")
    number, exponent, suffix = match.groups()
    return Decimal(number) * (Decimal(10) ** int(exponent) if exponent else _SUFFIXES[suffix or ""])


def is_quantity(value: object) -> bool:
    """True if `value` is a quantity."""
    try:
        parse_quantity(value)
    except ValueError:
        return False
    return True


def same_quantity(one: object, other: object) -> bool:
    """True if both are quantities of the same value, however spelled: `1` and `1000m`."""
    return is_quantity(one) and is_quantity(other) and parse_quantity(one) == parse_quantity(other)


def plus(quantity: object, extra: int) -> str:
    """Return `quantity`, rounded up to whole units, with `extra` added, in mebibytes where that is exact.

    Raises ValueError.
    """
    total = int(parse_quantity(quantity).to_integral_value(ROUND_CEILING)) + extra
    mebibytes, rest = divmod(total, 2**20)
    return str(total) if rest else f"{mebibytes}Mi"
