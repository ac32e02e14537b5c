"""Columnar codec of value bytes, without a Python object per value for most types.

It writes the same bytes as `ValueCodec` does value by value.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from queryable_state.streaming.runtime.columns.arrow_types import to_arrow_value, to_python
from queryable_state.wire.arrow.arrow_types import arrow_type
from queryable_state.wire.errors import SerializationError
from queryable_state.wire.rows import row_values
from queryable_state.wire.schema.types import Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from queryable_state.wire.values.value_codec import ValueCodec

DTYPES = {
    Kind.BOOLEAN: "u1",
    Kind.BYTE: "i1",
    Kind.SHORT: "<i2",
    Kind.INT: "<i4",
    Kind.LONG: "<i8",
    Kind.FLOAT: "<f4",
    Kind.DOUBLE: "<f8",
    Kind.DATE: "<i4",
    Kind.TIMESTAMP: "<i8",
    Kind.TIMESTAMP_NTZ: "<i8",
    Kind.INSTANT: "<i8",
}
"""numpy types of the fixed-width kinds, in payload byte order."""
_RAW = (Kind.STRING, Kind.BINARY)


def cast_column(column: pa.Array, info: TypeInfo, described: str) -> pa.Array:
    """The column cast to the Arrow type of `info`; SerializationError if a value does not fit."""
    wanted = arrow_type(info)
    if column.type == wanted:
        return column
    try:
        return column.cast(wanted)
    except pa.ArrowException as problem:
        raise SerializationError(
            f"{described} is {info}, but the column has Arrow type {column.type}, and a value does "
            f"not fit: {problem}"
        ) from problem


def numbers(column: pa.Array, info: TypeInfo) -> npt.NDArray[Any]:
    """The values of a fixed-width column in payload representation; null becomes 0."""
    kind = info.kind
    if kind == Kind.BOOLEAN:
        column = column.cast(pa.uint8())
    elif kind == Kind.DATE:
        column = column.cast(pa.int32())
    elif kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ, Kind.INSTANT):
        column = column.cast(pa.int64())
    if column.null_count:
        column = column.fill_null(0)
    array: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False).astype(DTYPES[kind], copy=False)
    return array


def column_of_numbers(
    values: npt.NDArray[Any], info: TypeInfo, nulls: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """The inverse of `numbers`."""
    storage = pa.array(values, mask=nulls)
    wanted = arrow_type(info)
    return storage if storage.type == wanted else storage.cast(wanted)


def encode_column(column: pa.Array, codec: ValueCodec) -> list[bytes]:
    """Encodes each value of a column without nulls."""
    info, header = codec.type_info, codec.header
    if info.kind in DTYPES:
        return _fixed_rows([numbers(column, info)], [info], header, 0)
    if info.kind in _RAW:
        values = column.cast(pa.binary()).to_pylist()
        return [header + value for value in values]
    return [codec.encode(value) for value in to_python(column, info)]


def encode_rows(columns: Sequence[pa.Array], codec: ValueCodec) -> list[bytes]:
    """Encodes each ROW value, given one column per field."""
    types = [field.type for field in codec.type_info.fields]
    bitmap_bytes = (len(types) + 7) // 8
    kinds = {info.kind for info in types}
    has_nulls = any(column.null_count for column in columns)
    if kinds <= DTYPES.keys() and not has_nulls:
        arrays = [numbers(column, info) for column, info in zip(columns, types, strict=True)]
        return _fixed_rows(arrays, types, codec.header, bitmap_bytes)
    if not kinds <= DTYPES.keys() | set(_RAW):
        values = [to_python(column, info) for column, info in zip(columns, types, strict=True)]
        return [codec.encode(value) for value in zip(*values, strict=True)]
    nulls = np.column_stack([column.is_null().to_numpy(zero_copy_only=False) for column in columns])
    bitmaps = np.packbits(nulls, axis=1, bitorder="little").tobytes()
    heads = [
        codec.header + bitmaps[start : start + bitmap_bytes]
        for start in range(0, len(bitmaps), bitmap_bytes)
    ]
    pieces = [_pieces(column, info) for column, info in zip(columns, types, strict=True)]
    return [b"".join(parts) for parts in zip(heads, *pieces, strict=True)]


def decode_column(values: Sequence[bytes], codec: ValueCodec) -> pa.Array:
    """Decodes values of a codec's type into a column."""
    info = codec.type_info
    if info.kind in DTYPES:
        rows = _read_fixed(values, [info], codec.header, 0)
        if rows is not None:
            return column_of_numbers(rows["f0"], info)
    return _nested([codec.decode(value) for value in values], info)


def decode_rows(values: Sequence[bytes], codec: ValueCodec) -> list[pa.Array]:
    """Decodes ROW values into one column per field."""
    fields = codec.type_info.fields
    types = [field.type for field in fields]
    if {info.kind for info in types} <= DTYPES.keys():
        rows = _read_fixed(values, types, codec.header, (len(types) + 7) // 8)
        if rows is not None:
            return [column_of_numbers(rows[f"f{i}"], info) for i, info in enumerate(types)]
    decoded = _decoded_rows(values, codec)
    return [_nested([row[i] for row in decoded], field.type) for i, field in enumerate(fields)]


def decode_fields(
    values: Sequence[bytes], codec: ValueCodec, positions: Sequence[int]
) -> list[pa.Array]:
    """Decodes some fields of ROW values into columns."""
    fields = codec.type_info.fields
    found = _FixedFields.of(values, codec, positions)
    if found is not None:
        return [found.column(position) for position in positions]
    rows = _decoded_rows(values, codec)
    return [_nested([row[i] for row in rows], fields[i].type) for i in positions]


def _nested(values: list[Any], info: TypeInfo) -> pa.Array:
    convert = to_arrow_value(info)
    if convert is not None:
        values = [None if value is None else convert(value) for value in values]
    return pa.array(values, type=arrow_type(info))


class _FixedFields:
    """Fixed-width fields of encoded rows, if all fields before them are fixed-width or raw."""

    def __init__(self, data: bytes, starts: npt.NDArray[np.int64], codec: ValueCodec) -> None:
        # A null field reads unused bytes at offset 0: pad the data to the widest type.
        self._data = np.frombuffer(data + bytes(8), dtype="u1")
        self._types = [field.type for field in codec.type_info.fields]
        bitmap_bytes = (len(self._types) + 7) // 8
        head = len(codec.header)
        self._bitmaps = starts + head
        self._offsets = [starts + head + bitmap_bytes]

    @staticmethod
    def of(
        values: Sequence[bytes], codec: ValueCodec, positions: Sequence[int]
    ) -> _FixedFields | None:
        """The fields; None if the rows must be decoded one by one."""
        types = [field.type for field in codec.type_info.fields]
        walked = types[: max(positions, default=0) + 1]
        if not all(info.kind in DTYPES or info.kind in _RAW for info in walked):
            return None
        if not all(types[position].kind in DTYPES for position in positions):
            return None
        if not all(map(bytes.startswith, values, itertools.repeat(codec.header))):
            return None
        ends = np.cumsum(np.fromiter(map(len, values), dtype=np.int64, count=len(values)))
        starts = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1]])[: len(values)]
        return _FixedFields(b"".join(values), starts, codec)

    def column(self, position: int) -> pa.Array:
        """The values of one field."""
        info, nulls = self._types[position], self._nulls(position)
        offsets = self._offset(position)
        width = np.dtype(DTYPES[info.kind]).itemsize
        return column_of_numbers(
            self._bytes(np.where(nulls, 0, offsets), width).view(DTYPES[info.kind])[:, 0],
            info,
            nulls if nulls.any() else None,
        )

    def _offset(self, position: int) -> npt.NDArray[np.int64]:
        """Offset of the field in each row; a null field has no width."""
        while len(self._offsets) <= position:
            before = len(self._offsets) - 1
            offsets, nulls = self._offsets[-1], self._nulls(before)
            kind = self._types[before].kind
            if kind in _RAW:
                lengths = self._bytes(np.where(nulls, 0, offsets), 4).view("<u4")[:, 0]
                width = lengths.astype(np.int64) + 4
            else:
                width = np.full(len(offsets), np.dtype(DTYPES[kind]).itemsize)
            self._offsets.append(offsets + np.where(nulls, 0, width))
        return self._offsets[position]

    def _nulls(self, position: int) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = (
            self._data[self._bitmaps + position // 8] >> (position % 8) & 1
        ).astype(np.bool_)
        return found

    def _bytes(self, offsets: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.uint8]:
        found: npt.NDArray[np.uint8] = np.ascontiguousarray(
            self._data[offsets[:, None] + np.arange(width)]
        )
        return found


def _decoded_rows(values: Sequence[bytes], codec: ValueCodec) -> list[Sequence[Any]]:
    """The field values of ROW values, which may be instances of a Python class."""
    values_of = row_values(codec.type_info, "value", SerializationError)
    return [values_of(codec.decode(value)) for value in values]


def _layout(types: Sequence[TypeInfo], head_bytes: int) -> np.dtype[Any]:
    fields: list[Any] = [("head", "u1", (head_bytes,))]
    fields += [(f"f{i}", DTYPES[info.kind]) for i, info in enumerate(types)]
    return np.dtype(fields)


def _fixed_rows(
    arrays: Sequence[npt.NDArray[Any]],
    types: Sequence[TypeInfo],
    header: bytes,
    bitmap_bytes: int,
) -> list[bytes]:
    head = header + bytes(bitmap_bytes)
    rows = np.empty(len(arrays[0]), dtype=_layout(types, len(head)))
    rows["head"] = np.frombuffer(head, dtype="u1")
    for i, array in enumerate(arrays):
        rows[f"f{i}"] = array
    data, width = rows.tobytes(), rows.dtype.itemsize
    return [data[start : start + width] for start in range(0, len(data), width)]


def _read_fixed(
    values: Sequence[bytes], types: Sequence[TypeInfo], header: bytes, bitmap_bytes: int
) -> npt.NDArray[Any] | None:
    """The values as a structured array; None unless all have the current version and no nulls."""
    head = header + bytes(bitmap_bytes)
    layout = _layout(types, len(head))
    if any(len(value) != layout.itemsize for value in values):
        return None
    rows: npt.NDArray[Any] = np.frombuffer(b"".join(values), dtype=layout)
    if not (rows["head"] == np.frombuffer(head, dtype="u1")).all():
        return None
    return rows


def _pieces(column: pa.Array, info: TypeInfo) -> list[bytes]:
    """The bytes of each value within its row; empty for null."""
    if info.kind in _RAW:
        return [
            b"" if value is None else len(value).to_bytes(4, "little") + value
            for value in column.cast(pa.binary()).to_pylist()
        ]
    array = numbers(column, info)
    data, width = array.tobytes(), array.dtype.itemsize
    pieces = [data[start : start + width] for start in range(0, len(data), width)]
    if column.null_count:
        for row in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
            pieces[row] = b""
    return pieces
