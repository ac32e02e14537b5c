"""Store keys: `key group | key | namespace | element`.

Every part is self-delimiting, so all records with the same leading parts form one key range.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Protocol

from queryable_state.wire.errors import CorruptDataError, InvalidRequestError

if TYPE_CHECKING:
    from queryable_state.v1 import query_pb2, watch_pb2

    WindowMessage = query_pb2.TimeWindow | watch_pb2.WatchedWindow

VOID_NAMESPACE = b"\x00"
"""The namespace of state outside windows."""

RESULT_ELEMENT = b""
"""Element of the only record of VALUE and REDUCING, and of an AGGREGATING result."""

ACCUMULATOR_ELEMENT = b"\x01"
"""Element of an AGGREGATING accumulator, which is stored beside its result."""

_WINDOW_TAG = b"\x01"
_MICROS_TAG = b"\x02"
_WINDOW = struct.Struct(">QQ")
_CHUNK = struct.Struct(">QI")
_BIAS = 1 << 63


def window_namespace(start_ms: int, end_ms: int) -> bytes:
    """The namespace of a time window, milliseconds since the epoch; sorts by start, then end."""
    try:
        return _WINDOW_TAG + _WINDOW.pack(start_ms + _BIAS, end_ms + _BIAS)
    except (struct.error, TypeError):
        raise InvalidRequestError(
            f"invalid window {start_ms} to {end_ms}: both must be 64-bit milliseconds since the "
            "epoch"
        ) from None


def micros_namespace(start_us: int, end_us: int) -> bytes:
    """As `window_namespace`, in a state whose windows have microseconds."""
    try:
        return _MICROS_TAG + _WINDOW.pack(start_us + _BIAS, end_us + _BIAS)
    except (struct.error, TypeError):
        raise InvalidRequestError(
            f"invalid window {start_us} to {end_us}: both must be 64-bit microseconds since the "
            "epoch"
        ) from None


def window_of(namespace: bytes) -> tuple[int, int] | None:
    """Start and end of a window of milliseconds; None for the void namespace.

    Raises `CorruptDataError` for others.
    """
    if namespace == VOID_NAMESPACE:
        return None
    if namespace_end(namespace, 0) != len(namespace):
        raise CorruptDataError(f"namespace {namespace[:20].hex()} is longer than a window's")
    if namespace[:1] != _WINDOW_TAG:
        raise CorruptDataError(f"namespace {namespace.hex()} is of a window of microseconds")
    return _bounds(namespace)


def micros_of_window(namespace: bytes) -> tuple[int, int] | None:
    """Start and end of any window in microseconds; None for the void namespace."""
    if namespace[:1] != _MICROS_TAG:
        bounds = window_of(namespace)
        return None if bounds is None else (bounds[0] * 1000, bounds[1] * 1000)
    if namespace_end(namespace, 0) != len(namespace):
        raise CorruptDataError(f"namespace {namespace[:20].hex()} is longer than a window's")
    return _bounds(namespace)


def _bounds(namespace: bytes) -> tuple[int, int]:
    start, end = _WINDOW.unpack_from(namespace, 1)
    return start - _BIAS, end - _BIAS


def write_window(namespace: bytes, window: WindowMessage) -> bool:
    """Writes the window of a namespace into a message; False for the void namespace."""
    bounds = micros_of_window(namespace)
    if bounds is None:
        return False
    if namespace[:1] == _MICROS_TAG:
        window.start_us, window.end_us = bounds
        if bounds[0] % 1000 or bounds[1] % 1000:
            # No window to a reader that does not know the microseconds.
            window.start_ms, window.end_ms = 1, 0
            return True
    window.start_ms, window.end_ms = bounds[0] // 1000, bounds[1] // 1000
    return True


def namespace_of(window: WindowMessage) -> bytes:
    """The namespace of a window in a message."""
    if window.HasField("start_us") and window.HasField("end_us"):
        return micros_namespace(window.start_us, window.end_us)
    return window_namespace(window.start_ms, window.end_ms)


def namespace_end(data: bytes, offset: int) -> int:
    """The end of the namespace at `offset`."""
    tag = data[offset : offset + 1]
    end = offset + (1 if tag == VOID_NAMESPACE else 1 + _WINDOW.size)
    if tag not in (VOID_NAMESPACE, _WINDOW_TAG, _MICROS_TAG) or end > len(data):
        raise CorruptDataError(
            f"no namespace starts at byte {offset} of {data[:64].hex()} ({len(data)} bytes)"
        )
    return end


def record_key(wire_key: bytes, namespace: bytes = VOID_NAMESPACE, element: bytes = b"") -> bytes:
    """The store key of one record; without an element the prefix of all records."""
    return wire_key + namespace + element


def changed_record_key(change: watch_pb2.KvChange) -> bytes:
    """The store key of a watched change, by which the changes of a batch are ordered."""
    namespace = VOID_NAMESPACE
    if change.HasField("window"):
        namespace = namespace_of(change.window)
    return record_key(change.key, namespace, change.element)


def list_element(batch_id: int, sequence: int) -> bytes:
    """The element of a list chunk: the `sequence`-th append of a batch, both from 0."""
    try:
        return _CHUNK.pack(batch_id, sequence)
    except struct.error:
        raise InvalidRequestError(
            f"invalid chunk {sequence} of batch {batch_id}: neither may be negative, and a batch "
            "has at most 2**32 chunks"
        ) from None


def chunk_of(element: bytes) -> tuple[int, int]:
    """Batch id and sequence of a list chunk's element."""
    if len(element) != _CHUNK.size:
        raise CorruptDataError(f"{element[:32].hex()} is not the element of a list chunk")
    batch_id, sequence = _CHUNK.unpack(element)
    return batch_id, sequence


class KeyDecoder(Protocol):
    """Decoder of keys; `KeyCodec` is one."""

    def decode(self, data: bytes, offset: int = 0) -> tuple[Any, int]:
        """The key at `offset` and the offset of its end."""


def split_record_key(key: bytes, key_codec: KeyDecoder) -> tuple[bytes, bytes, bytes]:
    """Splits a store key into wire key, namespace and element; `key_codec` reads its key."""
    if len(key) < 2:
        raise CorruptDataError(f"a store key of {len(key)} bytes has no key group")
    _, key_end = key_codec.decode(key, 2)
    end = namespace_end(key, key_end)
    return key[:key_end], key[key_end:end], key[end:]
