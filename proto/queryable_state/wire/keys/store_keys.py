"""Store keys: `key group | key | namespace | element`.

Every part is self-delimiting, so all records with the same leading parts form one key range.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Protocol

from queryable_state.wire.errors import CorruptDataError, InvalidRequestError

if TYPE_CHECKING:
    from queryable_state.v1 import watch_pb2

VOID_NAMESPACE = b"\x00"
"""The namespace of state outside windows."""

RESULT_ELEMENT = b""
"""Element of the only record of VALUE and REDUCING, and of an AGGREGATING result."""

ACCUMULATOR_ELEMENT = b"\x01"
"""Element of an AGGREGATING accumulator, which is stored beside its result."""

_WINDOW_TAG = b"\x01"
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


def window_of(namespace: bytes) -> tuple[int, int] | None:
    """Start and end of a window's namespace; None for the void namespace."""
    if namespace == VOID_NAMESPACE:
        return None
    if namespace_end(namespace, 0) != len(namespace):
        raise CorruptDataError(f"namespace {namespace[:20].hex()} is longer than a window's")
    start, end = _WINDOW.unpack_from(namespace, 1)
    return start - _BIAS, end - _BIAS


def namespace_end(data: bytes, offset: int) -> int:
    """The end of the namespace at `offset`."""
    tag = data[offset : offset + 1]
    end = offset + (1 if tag == VOID_NAMESPACE else 1 + _WINDOW.size)
    if tag not in (VOID_NAMESPACE, _WINDOW_TAG) or end > len(data):
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
        namespace = window_namespace(change.window.start_ms, change.window.end_ms)
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
