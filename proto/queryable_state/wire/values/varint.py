"""Variable-length encoding of numbers, as in protobuf: base 128, lowest group first.

Source: https://protobuf.dev/programming-guides/encoding/#varints
"""

from __future__ import annotations


def varint(number: int) -> bytes:
    """Encodes a number of at least 0."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
