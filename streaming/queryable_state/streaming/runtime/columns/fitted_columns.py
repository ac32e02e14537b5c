"""Arrow columns that a user function returns, converted to the declared types.

A conversion keeps each value, or rounds it as a stored FLOAT is rounded. Arrow alone would parse
strings into numbers and truncate fractions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from queryable_state.wire.arrow.arrow_types import arrow_type, field_names
from queryable_state.wire.errors import SerializationError
from queryable_state.wire.schema.types import Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_INTEGERS = frozenset((Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG))
_FLOATS = frozenset((Kind.FLOAT, Kind.DOUBLE))


def fitted_column(column: Any, info: TypeInfo) -> pa.Array:
    """The column in the Arrow type of `info`; SerializationError if that would change a value."""
    array = _as_array(column)
    wanted = arrow_type(info)
    if array.type == wanted:
        return array
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not _is_convertible(array.type, info):
        raise SerializationError(f"Arrow type {array.type} is not {info}")
    if pa.types.is_struct(array.type):
        return _struct(array, info)
    try:
        found = array.cast(wanted)
    except pa.ArrowException as problem:
        raise SerializationError(
            f"a value of Arrow type {array.type} is not a {info}: {problem}"
        ) from problem
    if info.kind == Kind.FLOAT and pa.types.is_floating(array.type):
        overflowed = pc.and_(pc.is_inf(found), pc.invert(pc.is_inf(array)))
        if pc.any(overflowed).as_py():
            raise SerializationError(f"a value of Arrow type {array.type} is too large for {info}")
    return found


def fitted_fields(rows: Any, info: TypeInfo) -> list[pa.Array]:
    """The columns of a table, a record batch or a struct, one per field of a ROW, in its order.

    Columns are found by name; SerializationError names a missing, unknown or unfitting one.
    """
    names = field_names(info)
    found = rows.schema.names if isinstance(rows, pa.Table | pa.RecordBatch) else _names(rows)
    if sorted(found) != sorted(names):
        raise SerializationError(
            f"the columns are {_listed(found, rows)}, but {info} has the columns "
            f"{', '.join(f'{name} {field.type}' for name, field in _pairs(info))}"
        )
    columns = []
    for name, field in _pairs(info):
        column = rows.field(name) if isinstance(rows, pa.StructArray) else rows.column(name)
        try:
            columns.append(fitted_column(column, field.type))
        except SerializationError as problem:
            raise SerializationError(f"column {name!r} must be {field.type}: {problem}") from None
    return columns


def _pairs(info: TypeInfo) -> list[tuple[str, Any]]:
    return list(zip(field_names(info), info.fields, strict=True))


def _names(rows: pa.StructArray) -> list[str]:
    return [field.name for field in rows.type]


def _listed(names: Sequence[str], rows: Any) -> str:
    types = rows.schema.types if hasattr(rows, "schema") else [field.type for field in rows.type]
    return ", ".join(f"{name} {of}" for name, of in zip(names, types, strict=True)) or "none"


def _as_array(column: Any) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks()
    return column if isinstance(column, pa.Array) else pa.array(column)


def _struct(array: pa.StructArray, info: TypeInfo) -> pa.Array:
    if not len(info.fields):
        return array
    return pa.StructArray.from_arrays(
        fitted_fields(array, info), fields=list(arrow_type(info)), mask=array.is_null()
    )


def _is_convertible(found: pa.DataType, info: TypeInfo) -> bool:
    """True if values of an Arrow type may be values of `info`; the cast checks each of them."""
    types = pa.types
    if types.is_null(found):
        return True
    kind = info.kind
    if types.is_integer(found):
        return kind in _INTEGERS or kind in _FLOATS or kind == Kind.DECIMAL
    if types.is_floating(found):
        return kind in _FLOATS
    if types.is_timestamp(found):
        return kind == (Kind.TIMESTAMP_NTZ if found.tz is None else Kind.TIMESTAMP)
    for is_of, kinds in _KINDS:
        if is_of(found):
            return kind in kinds
    if types.is_list(found) or types.is_large_list(found):
        return info.element is not None and kind == Kind.LIST and _is_same(found, info)
    return types.is_map(found) and kind == Kind.MAP and _is_same(found, info)


def _is_same(found: pa.DataType, info: TypeInfo) -> bool:
    """True if the elements of a list or map may be those of `info`."""
    assert info.element is not None
    if info.kind == Kind.LIST:
        return _is_element(found.value_type, info.element)
    assert info.key is not None
    return _is_element(found.key_type, info.key) and _is_element(found.item_type, info.element)


def _is_element(found: pa.DataType, info: TypeInfo) -> bool:
    return found == arrow_type(info) or (
        not pa.types.is_struct(found) and _is_convertible(found, info)
    )


_KINDS: tuple[tuple[Callable[[pa.DataType], bool], frozenset[Kind]], ...] = (
    (pa.types.is_boolean, frozenset((Kind.BOOLEAN,))),
    (pa.types.is_decimal, frozenset((Kind.DECIMAL,))),
    (pa.types.is_date, frozenset((Kind.DATE,))),
    (pa.types.is_struct, frozenset((Kind.ROW, Kind.TUPLE))),
    (lambda of: pa.types.is_string(of) or pa.types.is_large_string(of), frozenset((Kind.STRING,))),
    (pa.types.is_string_view, frozenset((Kind.STRING,))),
    (
        lambda of: (
            pa.types.is_binary(of) or pa.types.is_large_binary(of) or pa.types.is_binary_view(of)
        ),
        frozenset((Kind.BINARY, Kind.PICKLED)),
    ),
)
