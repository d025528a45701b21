"""The protobuf encoding of the hook messages, as far as they need it: length-delimited fields.

Each field of KubeVirt's hook messages that we read or write is bytes, a string or a message. For that, protobuf's own
layer would take 2.4 of the 45 MiB that the sidecar lives in, beside every GPU VM. The definitions and the stubs for
clients are in `hooksidecar.api`; the tests hold this module against them.
Source: https://protobuf.dev/programming-guides/encoding/
"""

from collections.abc import Iterable

_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
_FIXED_LENGTHS = {_FIXED64: 8, _FIXED32: 4}
_MAX_BITS = 64


def decode(message: bytes) -> dict[int, bytes]:
    """Return the length-delimited fields of a message by number; of a number that is there twice, the last.

    Fields of other types are passed over, as fields of a later version are. Raises ValueError where it is malformed.
    """
    fields: dict[int, bytes] = {}
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            _, position = _varint(message, position)
            continue
        if kind == _DELIMITED:
            length, position = _varint(message, position)
        elif kind in _FIXED_LENGTHS:
            length = _FIXED_LENGTHS[kind]
        else:
            raise ValueError(f"field {number} is of the unknown type {kind}")
        end = position + length
        if number == 0 or end > len(message):
            raise ValueError(f"field {number} is malformed or cut")
        if kind == _DELIMITED:
            fields[number] = message[position:end]
        position = end
    return fields


def encode(fields: Iterable[tuple[int, bytes]]) -> bytes:
    """Return the message with these fields, each a number and its bytes; empty ones are left out, as proto3 does."""
    parts: list[bytes] = []
    for number, value in fields:
        if value:
            parts += _to_varint(number << 3 | _DELIMITED), _to_varint(len(value)), value
    return b"".join(parts)


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """Return the number that starts at `position`, and the position after it."""
    value = 0
    for shift in range(0, _MAX_BITS + 6, 7):
        if position >= len(message):
            raise ValueError("a number is cut")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 (the bit that says: more follows)
            return value, position
    raise ValueError("a number is longer than 64 bits")


def _to_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:  # noqa: PLR2004 (seven bits a byte)
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
