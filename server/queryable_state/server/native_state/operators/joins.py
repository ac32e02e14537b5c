"""States of stream-stream joins: the rows of both sides by join key.

Formats 1 and 2 have four stores; format 3 has the same as column families of one store. Each side
has the number of rows by key and the rows by key and index, from format 2 on with the flag
`matched`. Format 4 has the rows by key and event time, and for evictions an index by event time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.native_state.operators.layouts.join_layouts import (
    IndexedRowsLayout,
    TimedRowsLayout,
)
from queryable_state.server.native_state.operators.layouts.key_columns import KeyColumns
from queryable_state.server.native_state.operators.layouts.raw_table import RawTable
from queryable_state.server.native_state.operators.operator_tables import (
    DEFAULT_FAMILY,
    DEFAULT_STORE,
)
from queryable_state.server.native_state.rows.spark_types import (
    BINARY_COLLATION,
    SparkKind,
    UnsupportedTypeError,
    parse_struct,
)
from queryable_state.v1 import registration_pb2

if TYPE_CHECKING:
    from queryable_state.server.native_state.operators.layouts.key_columns import Columns
    from queryable_state.server.native_state.operators.layouts.row_values import RowValues
    from queryable_state.server.native_state.operators.operator_tables import OperatorTables
    from queryable_state.server.native_state.operators.state_layout import (
        StateDefinition,
        StateLayout,
    )
    from queryable_state.server.native_state.rows.spark_types import SparkType

FORMAT = "spark.sql.streaming.join.stateFormatVersion"
_STORES = ("1", "2")
_FAMILIES = "3"
_BY_TIME = "4"

Place = tuple[str, str]
"""Store and column family."""


def stream_join(operator: OperatorTables) -> list[StateLayout]:
    """The states `left` and `right` of a stream-stream join: the buffered rows of each side."""
    version = operator.format_version(FORMAT, (*_STORES, _FAMILIES, _BY_TIME), default="1")
    _check_keys(operator, version)
    make = _timed if version == _BY_TIME else _indexed
    return [make(operator, version, side) for side in ("left", "right")]


def _check_keys(operator: OperatorTables, version: str) -> None:
    """Raises UnsupportedTypeError for keys that may be collation keys.

    Of a column with a collation Spark joins by its collation key, a binary in the schema like any
    other; the rows have the column itself. Spark refuses such columns in the keys of all other
    operators, and joins on `collate(...)` of plain columns.
    """
    table = "keyWithTsToValues" if version == _BY_TIME else "keyWithIndexToValue"
    schemas = [
        operator.families(store)[family]
        for store, family in (_place(version, f"{side}-{table}") for side in ("left", "right"))
    ]
    keys = [parse_struct(schema.key_schema) for schema in schemas]
    rows = [parse_struct(text) for schema in schemas for text in schema.value_schemas.values()]
    if any(_has_binary(each) for each in keys) and any(_has_collation(each) for each in rows):
        raise UnsupportedTypeError(
            "the join has binary key columns and rows with a collated string, so that its keys may "
            "be Spark's collation keys, by which nobody can look up: join on columns without a "
            "collation, such as collate(name, 'UTF8_BINARY') or lower(name)"
        )


def _has_binary(spark_type: SparkType) -> bool:
    return any(part.kind == SparkKind.BINARY for part in spark_type.parts())


def _has_collation(spark_type: SparkType) -> bool:
    return any(part.collation != BINARY_COLLATION for part in spark_type.parts())


def _place(version: str, table: str) -> Place:
    return (table, DEFAULT_FAMILY) if version in _STORES else (DEFAULT_STORE, table)


def _indexed(operator: OperatorTables, version: str, side: str) -> StateLayout:
    count_place = _place(version, f"{side}-keyToNumValues")
    row_place = _place(version, f"{side}-keyWithIndexToValue")
    keys = KeyColumns(operator.key_fields(*count_place))
    counts, rows = operator.value_rows(*count_place), operator.value_rows(*row_place)
    values = rows.values()

    def read_count(raw_value: bytes) -> int:
        count: int = counts.columns(counts.row(raw_value))[0]
        return count

    def read_row(raw_value: bytes) -> bytes:
        return values.encode_element(rows.row(raw_value))

    return IndexedRowsLayout(
        _definition(operator, version, side, keys, values),
        RawTable(operator.source(count_place[0]), operator.raw_keys(*count_place), keys),
        RawTable(operator.source(row_place[0]), operator.raw_keys(*row_place), keys, _without_last),
        read_count,
        read_row,
    )


def _timed(operator: OperatorTables, version: str, side: str) -> StateLayout:
    place = _place(version, f"{side}-keyWithTsToValues")
    keys = KeyColumns(operator.key_fields(*place)[:-1])
    rows = operator.value_rows(*place)
    values = rows.values()

    def read_rows(raw_value: bytes) -> list[bytes]:
        return [values.encode_element(row) for row in rows.rows(raw_value)]

    return TimedRowsLayout(
        _definition(operator, version, side, keys, values),
        RawTable(operator.source(), operator.raw_keys(*place), keys, _without_last),
        read_rows,
    )


def _without_last(values: Columns) -> Columns:
    return values[:-1]


def _definition(
    operator: OperatorTables, version: str, side: str, keys: KeyColumns, values: RowValues
) -> StateDefinition:
    flag = "" if version == "1" else "; matched: Spark has joined the row"
    return operator.definition(
        name=side,
        kind=registration_pb2.LIST,
        key_type=keys.key_type,
        value_type=values.value_type,
        operator="join",
        format=f"state format {version}",
        description=f"The rows of the {side} side by join key{flag}.",
    )
