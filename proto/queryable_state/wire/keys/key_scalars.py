"""Codecs of scalar keys: a pair of closures a type."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import partial
from operator import index
from typing import Any

from queryable_state.wire.errors import CorruptDataError, KeyTypeError
from queryable_state.wire.schema.type_model import Kind, TypeInfo
from queryable_state.wire.values import scalars

Encode = Callable[[Any], bytes]
Decode = Callable[[bytes, int], tuple[Any, int]]

_WIDTHS = {Kind.BYTE: 8, Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}
_END = b"\x00\x01"
_ZERO = b"\x00"
_ESCAPED_ZERO = b"\x00\xff"


def codec(info: TypeInfo, path: str) -> tuple[Encode, Decode] | None:
    """Encoder and decoder of a scalar key; None if the type is not a scalar that keys can have.

    `path` names the key or field in errors.
    """
    match info.kind:
        case Kind.STRING:
            return _string(path), _decode_string(path)
        case Kind.BINARY:
            return _binary(path), _decode_binary(path)
        case Kind.BOOLEAN:
            return _boolean(path)
        case Kind.BYTE | Kind.SHORT | Kind.INT | Kind.LONG:
            bits = _WIDTHS[info.kind]
            return _integer(info, path, bits), _decode_integer(path, bits, _same)
        case Kind.FLOAT:
            return _float(path, ">f", ">I", 32)
        case Kind.DOUBLE:
            return _float(path, ">d", ">Q", 64)
        case Kind.DECIMAL | Kind.BIG_INT:
            return _decimal(info, path)
        case Kind.TIME:
            encode = _converted(info, path, 64, scalars.time_micros_of)
            return encode, _decode_integer(path, 64, scalars.time_of)
        case Kind.INSTANT:
            encode = _converted(info, path, 64, scalars.micros_of)
            return encode, _decode_integer(path, 64, scalars.instant_object_of)
        case Kind.DATE:
            encode = _converted(info, path, 32, scalars.days_of)
            return encode, _decode_integer(path, 32, scalars.date_of)
        case Kind.TIMESTAMP:
            encode = _converted(info, path, 64, scalars.micros_of)
            return encode, _decode_integer(path, 64, scalars.instant_of)
        case Kind.TIMESTAMP_NTZ:
            encode = _converted(info, path, 64, scalars.wall_micros_of)
            return encode, _decode_integer(path, 64, scalars.wall_time_of)
        case _:
            return None


def refusal(value: Any, info: TypeInfo, path: str, why: object = "") -> KeyTypeError:
    """The error for a value that is not a key of the type."""
    if value is None:
        return KeyTypeError(f"{path} is null: keys and their fields cannot be null")
    shown = repr(value)
    shown = shown if len(shown) <= 80 else shown[:80] + "..."
    detail = f": {why}" if str(why) else ""
    return KeyTypeError(f"{path} is {info}, which {type(value).__name__} {shown} is not{detail}")


def _truncated(path: str) -> CorruptDataError:
    return CorruptDataError(f"{path}: the encoded key ends too early")


def _same(value: int) -> Any:
    return value


def _string(path: str) -> Encode:
    info = TypeInfo(Kind.STRING)

    def encode(value: Any) -> bytes:
        try:
            data: bytes = value.encode()
        except (AttributeError, TypeError, UnicodeEncodeError) as error:
            why = error if isinstance(error, UnicodeEncodeError) else ""
            raise refusal(value, info, path, why) from None
        if _ZERO in data:
            data = data.replace(_ZERO, _ESCAPED_ZERO)
        return data + _END

    return encode


def _binary(path: str) -> Encode:
    info = TypeInfo(Kind.BINARY)

    def encode(value: Any) -> bytes:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise refusal(value, info, path)
        data = bytes(value)
        if _ZERO in data:
            data = data.replace(_ZERO, _ESCAPED_ZERO)
        return data + _END

    return encode


def _decode_binary(path: str) -> Decode:
    def decode(data: bytes, offset: int) -> tuple[Any, int]:
        # FF follows every 00 of the content, so the first 00 01 is the end.
        end = data.find(_END, offset)
        if end < 0:
            raise _truncated(path)
        raw = data[offset:end]
        if _ZERO in raw:
            if raw.count(_ZERO) != raw.count(_ESCAPED_ZERO):
                raise CorruptDataError(f"{path}: a zero byte of the encoded key is not escaped")
            raw = raw.replace(_ESCAPED_ZERO, _ZERO)
        return raw, end + 2

    return decode


def _decode_string(path: str) -> Decode:
    decode_binary = _decode_binary(path)

    def decode(data: bytes, offset: int) -> tuple[Any, int]:
        raw, end = decode_binary(data, offset)
        try:
            return raw.decode(), end
        except UnicodeDecodeError as error:
            raise CorruptDataError(f"{path}: the encoded key is not UTF-8: {error}") from None

    return decode


def _boolean(path: str) -> tuple[Encode, Decode]:
    info = TypeInfo(Kind.BOOLEAN)

    def encode(value: Any) -> bytes:
        if value is True:
            return b"\x01"
        if value is False:
            return b"\x00"
        raise refusal(value, info, path)

    def decode(data: bytes, offset: int) -> tuple[Any, int]:
        if offset >= len(data):
            raise _truncated(path)
        if data[offset] > 1:
            raise CorruptDataError(f"{path}: byte {data[offset]} is not a boolean")
        return data[offset] == 1, offset + 1

    return encode, decode


_UNSIGNED = {8: ">B", 16: ">H", 32: ">I", 64: ">Q"}


def _integer(info: TypeInfo, path: str, bits: int) -> Encode:
    pack = struct.Struct(_UNSIGNED[bits]).pack
    bias = 1 << (bits - 1)

    def encode(value: Any) -> bytes:
        if value.__class__ is bool:
            raise refusal(value, info, path)
        try:
            return pack(index(value) + bias)
        except TypeError:
            raise refusal(value, info, path) from None
        except struct.error:
            raise refusal(value, info, path, f"it needs more than {bits} bits") from None

    return encode


def _converted(info: TypeInfo, path: str, bits: int, convert: Callable[[Any], int]) -> Encode:
    pack = struct.Struct(_UNSIGNED[bits]).pack
    bias = 1 << (bits - 1)

    def encode(value: Any) -> bytes:
        try:
            return pack(convert(value) + bias)
        except (TypeError, ValueError) as error:
            raise refusal(value, info, path, error) from None

    return encode


def _decode_integer(path: str, bits: int, convert: Callable[[int], Any]) -> Decode:
    unpack_from = struct.Struct(_UNSIGNED[bits]).unpack_from
    bias = 1 << (bits - 1)
    width = bits // 8

    def decode(data: bytes, offset: int) -> tuple[Any, int]:
        try:
            return convert(unpack_from(data, offset)[0] - bias), offset + width
        except struct.error:
            raise _truncated(path) from None
        except ValueError as error:
            raise CorruptDataError(f"{path}: {error}") from None

    return decode


def _float(path: str, real: str, bits_format: str, bits: int) -> tuple[Encode, Decode]:
    info = TypeInfo(Kind.FLOAT if bits == 32 else Kind.DOUBLE)
    pack_real = struct.Struct(real).pack
    unpack_real = struct.Struct(real).unpack
    as_bits = struct.Struct(bits_format)
    sign = 1 << (bits - 1)
    ones = (1 << bits) - 1
    width = bits // 8
    nan = as_bits.pack(0xFFC00000 if bits == 32 else 0xFFF8000000000000)

    def encode(value: Any) -> bytes:
        if not hasattr(value, "__float__") or value.__class__ is bool:
            raise refusal(value, info, path)
        try:
            # Adding 0.0 turns -0.0 into 0.0.
            number = float(value) + 0.0
            if number != number:
                return nan
            (raw,) = as_bits.unpack(pack_real(number + 0.0))
        except (TypeError, ValueError, OverflowError) as error:
            raise refusal(value, info, path, error) from None
        # A negative double may round to -0.0 as a float.
        if raw == sign:
            raw = 0
        return as_bits.pack(raw ^ ones if raw & sign else raw | sign)

    def decode(data: bytes, offset: int) -> tuple[Any, int]:
        try:
            (raw,) = as_bits.unpack_from(data, offset)
        except struct.error:
            raise _truncated(path) from None
        raw = raw ^ sign if raw & sign else raw ^ ones
        (value,) = unpack_real(as_bits.pack(raw))
        if raw == sign or (math.isnan(value) and data[offset : offset + width] != nan):
            raise CorruptDataError(f"{path}: -0.0 and other NaNs have no encoding of their own")
        return value, offset + width

    return encode, decode


def _decimal(info: TypeInfo, path: str) -> tuple[Encode, Decode]:
    of_value: Callable[[Any], int] = scalars.big_int_of
    of_unscaled: Callable[[int], Any] = scalars.checked_big_int
    if info.kind == Kind.DECIMAL:
        of_value = partial(scalars.unscaled_of, precision=info.precision, scale=info.scale)
        of_unscaled = partial(scalars.decimal_of, precision=info.precision, scale=info.scale)
    width = 8 if 0 < info.precision <= 18 else 16
    bias = 1 << (8 * width - 1)

    def encode(value: Any) -> bytes:
        try:
            return (of_value(value) + bias).to_bytes(width, "big")
        except (TypeError, ValueError) as error:
            raise refusal(value, info, path, error) from None

    def decode(data: bytes, offset: int) -> tuple[Any, int]:
        end = offset + width
        if end > len(data):
            raise _truncated(path)
        unscaled = int.from_bytes(data[offset:end], "big") - bias
        try:
            return of_unscaled(unscaled), end
        except ValueError as error:
            raise CorruptDataError(f"{path}: {error}") from None

    return encode, decode
