"""Codec of values: `format byte | schema version | [timestamp] | payload`.

The format byte has the codec in its low four bits (0: fields by position, 1: null,
without a payload), bit 4 for compression, bit 5 for a timestamp; bits 6 and 7 are zero.
The schema version is an unsigned LEB128 number. The timestamp is the time of the last update, 8
bytes big-endian: milliseconds since the epoch. Values of states with a TTL have one, see
`wire.values.lifetime`. The type of that schema version defines the payload.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any

from queryable_state.wire.errors import CorruptDataError, InvalidRequestError, SerializationError
from queryable_state.wire.rows import Row
from queryable_state.wire.values.evolution import adapter, in_classes_of
from queryable_state.wire.values.payload import top_decoder, top_encoder, whole_decoder
from queryable_state.wire.values.pickled import PickledValue
from queryable_state.wire.values.scalar_codecs import PickleMode
from queryable_state.wire.values.varint import varint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from queryable_state.wire.schema.type_model import TypeInfo
    from queryable_state.wire.values.pickled import Pickle

__all__ = [
    "PickledValue",
    "Row",
    "ValueCodec",
    "ValueHeader",
    "header_of",
    "is_stale",
    "read_header",
    "timestamp_of",
    "with_timestamp",
    "without_timestamp",
]

CODEC_FIELDS = 0
CODEC_NULL = 1
COMPRESSED = 0x10
HAS_TIMESTAMP = 0x20

_CODEC_MASK = 0x0F
_RESERVED = 0xC0
_TIMESTAMP = struct.Struct(">q")
_NO_TIMESTAMP = bytes((CODEC_FIELDS,))
_MAX_VERSION = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class ValueHeader:
    """The header before a payload."""

    codec: int
    """0: fields by position; 1: null."""
    schema_version: int
    timestamp_ms: int | None
    """Milliseconds since the epoch of the last update; None: the value does not expire."""
    payload_offset: int


def header_of(schema_version: int, timestamp_ms: int | None = None) -> bytes:
    """Encodes the header before a payload."""
    if not 0 <= schema_version <= _MAX_VERSION:
        raise InvalidRequestError(
            f"schema version is {schema_version}: it must be 0 to {_MAX_VERSION}"
        )
    number = varint(schema_version)
    if timestamp_ms is None:
        return bytes((CODEC_FIELDS,)) + number
    return bytes((CODEC_FIELDS | HAS_TIMESTAMP,)) + number + _packed_timestamp(timestamp_ms)


def _packed_timestamp(timestamp_ms: int) -> bytes:
    try:
        return _TIMESTAMP.pack(timestamp_ms)
    except struct.error:
        raise SerializationError(
            f"timestamp {timestamp_ms!r} is not a 64-bit number of milliseconds"
        ) from None


def read_header(data: bytes) -> ValueHeader:
    """Decodes the header of a value."""
    if not data:
        raise CorruptDataError("an empty value has no header")
    form = data[0]
    codec = form & _CODEC_MASK
    if form & _RESERVED or codec not in (CODEC_FIELDS, CODEC_NULL):
        raise CorruptDataError(f"unknown value format {form:#04x}")
    if form & COMPRESSED:
        raise CorruptDataError(f"value format {form:#04x}: compressed values are not supported")
    version = shift = 0
    offset = 1
    while True:
        if offset >= len(data) or shift > 28:
            raise CorruptDataError("a value's header ends within its schema version")
        byte = data[offset]
        offset += 1
        version |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if version > _MAX_VERSION or (byte == 0 and shift):
        raise CorruptDataError("a value's header has no valid schema version")
    if not form & HAS_TIMESTAMP:
        return ValueHeader(codec, version, None, offset)
    if offset + 8 > len(data):
        raise CorruptDataError("a value's header ends within its timestamp")
    return ValueHeader(codec, version, _TIMESTAMP.unpack_from(data, offset)[0], offset + 8)


def timestamp_of(data: bytes) -> int | None:
    """The time of a value's last update; None if it has no timestamp."""
    # An empty value is damaged: decoding it raises.
    if not data or not data[0] & HAS_TIMESTAMP:
        return None
    if data[0] == HAS_TIMESTAMP and len(data) >= 10 and data[1] < 0x80:
        timestamp_ms: int = _TIMESTAMP.unpack_from(data, 2)[0]
        return timestamp_ms
    return read_header(data).timestamp_ms


def is_stale(data: bytes, stale_ms: int) -> bool:
    """True if a value has a timestamp at or before `stale_ms`."""
    timestamp_ms = timestamp_of(data)
    return timestamp_ms is not None and timestamp_ms <= stale_ms


def without_timestamp(data: bytes) -> bytes:
    """The bytes of a value without its timestamp."""
    if not data[0] & HAS_TIMESTAMP:
        return data
    if data[0] == HAS_TIMESTAMP and len(data) >= 10 and data[1] < 0x80:
        return _NO_TIMESTAMP + data[1:2] + data[10:]
    offset = read_header(data).payload_offset
    return bytes((data[0] & ~HAS_TIMESTAMP,)) + data[1 : offset - 8] + data[offset:]


def with_timestamp(data: bytes, timestamp_ms: int) -> bytes:
    """The bytes of a value, which has no timestamp, with one."""
    stamp, offset = _packed_timestamp(timestamp_ms), 2
    if data[1] >= 0x80:
        offset = read_header(data).payload_offset
    return bytes((data[0] | HAS_TIMESTAMP,)) + data[1:offset] + stamp + data[offset:]


class ValueCodec:
    """Encodes values of the current type, decodes those of every version. Thread-safe.

    `versions` are the types of stored values by schema version. Values are encoded as
    `current`, and older ones are converted to it when decoded: an added field is null, a
    dropped one is left out. With a `pickler` a PICKLED value may be any object, else it
    must be `bytes` of a pickle. It decodes to a `PickledValue`, or with `unpickle` to the object.
    """

    __slots__ = (
        "_current",
        "_decode_payloads",
        "_encode_payload",
        "_mode",
        "_readers",
        "_stamped_header",
        "_versions",
        "header",
        "null",
    )

    def __init__(
        self,
        versions: Mapping[int, TypeInfo],
        current: int,
        *,
        pickler: Pickle | None = None,
        unpickle: bool = False,
    ) -> None:
        if current not in versions:
            raise InvalidRequestError(f"schema version {current} is not one of {sorted(versions)}")
        self._versions = dict(versions)
        self._current = current
        self._mode = PickleMode(dump=pickler, load=unpickle)
        self.header = header_of(current)
        self.null = bytes((CODEC_NULL,)) + self.header[1:]
        """The bytes of a null, which is a value in a MAP state."""
        self._stamped_header = bytes((self.header[0] | HAS_TIMESTAMP,)) + self.header[1:]
        self._encode_payload = top_encoder(versions[current], "value", self._mode)
        self._decode_payloads = whole_decoder(versions[current])
        # By schema version; those of older versions are made at their first value.
        self._readers: dict[int, Callable[[bytes, int], Any]] = {
            current: top_decoder(versions[current], self._mode)
        }

    @staticmethod
    def of(
        type_info: TypeInfo, *, pickler: Pickle | None = None, unpickle: bool = False
    ) -> ValueCodec:
        """The codec of a type with one schema version, 1."""
        return ValueCodec({1: type_info}, 1, pickler=pickler, unpickle=unpickle)

    @property
    def type_info(self) -> TypeInfo:
        """The type of encoded values."""
        return self._versions[self._current]

    @property
    def schema_version(self) -> int:
        """The schema version of encoded values."""
        return self._current

    def encode(self, value: Any, timestamp_ms: int | None = None) -> bytes:
        """Encodes a value; raises SerializationError for None or a value of another type."""
        if timestamp_ms is None:
            return self.header + self._encode_payload(value)
        return self._stamped_header + _packed_timestamp(timestamp_ms) + self._encode_payload(value)

    def decode(self, data: bytes) -> Any:
        """Decodes a value, expired or not; None for a null.

        Raises CorruptDataError for damaged bytes and unknown schema versions.
        """
        header = self.header
        if data.startswith(header):
            read = self._readers[self._current]
            offset = len(header)
        elif data.startswith(self._stamped_header) and len(data) >= len(header) + 8:
            read = self._readers[self._current]
            offset = len(header) + 8
        else:
            found = read_header(data)
            if found.codec == CODEC_NULL:
                return self._null(data, found)
            read = self._readers.get(found.schema_version) or self._reader(found.schema_version)
            offset = found.payload_offset
        try:
            return read(data, offset)
        except (ValueError, struct.error, OverflowError) as error:
            raise CorruptDataError(
                f"{len(data)} bytes are not a value of type {self.type_info}: {error}"
            ) from error

    def read_back(self, value: Any) -> Any:
        """Encodes and decodes a value, which gives its normal form; raises as `encode` does."""
        return self._readers[self._current](self._encode_payload(value), 0)

    def decode_all(self, data: Sequence[bytes]) -> list[Any] | None:
        """Decodes many values at once; None if each needs `decode`.

        That is so if a value has an older version or a timestamp or is damaged, and for types
        for which this is not faster.
        """
        decode, header = self._decode_payloads, self.header
        if decode is None or not all(map(bytes.startswith, data, repeat(header))):
            return None
        try:
            return decode(data, len(header))
        except ValueError:
            return None

    def _null(self, data: bytes, header: ValueHeader) -> None:
        if header.schema_version not in self._versions:
            raise self._unknown_version(header.schema_version)
        if header.payload_offset != len(data):
            raise CorruptDataError("bytes follow the header of a null, which has no payload")

    def _unknown_version(self, version: int) -> CorruptDataError:
        return CorruptDataError(
            f"a value has the unknown schema version {version}, known are "
            f"{sorted(self._versions)}: refresh the registration"
        )

    def _reader(self, version: int) -> Callable[[bytes, int], Any]:
        old = self._versions.get(version)
        if old is None:
            raise self._unknown_version(version)
        read = top_decoder(in_classes_of(old, self.type_info), self._mode)
        adapt = adapter(old, self.type_info)
        self._readers[version] = (
            read if adapt is None else lambda data, offset: adapt(read(data, offset))
        )
        return self._readers[version]

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (self._versions, self._current, self._mode))


def _rebuild(versions: dict[int, TypeInfo], current: int, mode: PickleMode) -> ValueCodec:
    return ValueCodec(versions, current, pickler=mode.dump, unpickle=mode.load)
