"""Keys of timers: the store key of a timer, and its key in the time-ordered index.

    store key   key group | key | namespace | clock | timestamp
    index key   clock | timestamp | key group | key | namespace

The clock is one byte, the timestamp eight, big-endian with the sign bit flipped. The order of the
index keys is the order in which timers fire: processing time before event time, then by timestamp,
key group, key and namespace. The record of a timer has no value.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from operator import index
from typing import SupportsIndex

from queryable_state.wire.errors import CorruptDataError, InvalidRequestError

_ELEMENT = struct.Struct(">BQ")
_BIAS = 1 << 63

ELEMENT_BYTES = _ELEMENT.size
"""Bytes of clock and timestamp."""


class Clock(IntEnum):
    """The clock of a timer, as keys have it."""

    PROCESSING_TIME = 0
    EVENT_TIME = 1


def timer_element(clock: Clock, timestamp_ms: SupportsIndex) -> bytes:
    """The element of a timer in its store key.

    Takes integers of numpy, too. Raises InvalidRequestError unless the timestamp is a 64-bit
    number of milliseconds.
    """
    try:
        # The bias is above the integers of numpy.
        at_ms = timestamp_ms if type(timestamp_ms) is int else index(timestamp_ms)
        return _ELEMENT.pack(clock, at_ms + _BIAS)
    except (struct.error, TypeError):
        raise InvalidRequestError(
            f"invalid timer {timestamp_ms!r}: the timestamp must be 64-bit milliseconds since the "
            "epoch"
        ) from None


def timer_of(element: bytes) -> tuple[Clock, int]:
    """Clock and timestamp of a timer's element."""
    if len(element) != ELEMENT_BYTES or element[0] > Clock.EVENT_TIME:
        raise CorruptDataError(f"{element[:32].hex()} is not the element of a timer")
    clock, timestamp = _ELEMENT.unpack(element)
    return Clock(clock), timestamp - _BIAS


def index_key_of(store_key: bytes) -> bytes:
    """The index key of a timer's store key."""
    return store_key[-ELEMENT_BYTES:] + store_key[:-ELEMENT_BYTES]


def store_key_of(index_key: bytes) -> bytes:
    """The store key of a timer's index key."""
    return index_key[ELEMENT_BYTES:] + index_key[:ELEMENT_BYTES]


def due_end(clock: Clock, until_ms: int) -> bytes:
    """The first index key after all timers of a clock up to a time, inclusive."""
    if until_ms + _BIAS >= (1 << 64) - 1:
        return bytes([clock + 1])
    return timer_element(clock, until_ms + 1)
