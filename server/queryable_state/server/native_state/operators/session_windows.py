"""States of session windows: the aggregate buffers by grouping key and window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.native_state.operators.layouts.key_columns import KeyColumns
from queryable_state.server.native_state.operators.layouts.raw_table import RawTable
from queryable_state.server.native_state.operators.layouts.window_layout import SessionLayout
from queryable_state.v1 import registration_pb2
from queryable_state.wire.keys.time_window import MICROS_WINDOW_TYPE
from queryable_state.wire.schema.type_model import Kind
from queryable_state.wire.values.scalars import micros_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.native_state.operators.operator_tables import OperatorTables
    from queryable_state.server.native_state.operators.state_layout import StateLayout
    from queryable_state.wire.schema.type_model import Field

FORMAT = "spark.sql.streaming.sessionWindow.stateFormatVersion"


def session_windows(operator: OperatorTables) -> list[StateLayout]:
    """The only state of an aggregation by session windows.

    Raw keys are the grouping columns and the start of the window. Raw values are the grouping
    columns, the window as a struct of start and end, and the buffers, in the order of the query;
    the value has the window and the buffers.
    """
    version = operator.format_version(FORMAT, known=("1",), default="1")
    key_fields, rows = operator.key_fields()[:-1], operator.value_rows()
    keys = KeyColumns(key_fields)
    window, kept = _positions(operator, rows.fields, key_fields)
    values = rows.values(kept)
    columns, encode = rows.columns, values.encode

    def read(raw_value: bytes) -> tuple[int, int, bytes]:
        row = rows.row(raw_value)
        start, end = columns(row)[window]
        return micros_of(start), micros_of(end), encode(row)

    definition = operator.definition(
        kind=registration_pb2.VALUE,
        key_type=keys.key_type,
        value_type=values.value_type,
        namespace_type=MICROS_WINDOW_TYPE,
        partitions=None if key_fields else 1,
        operator="sessions",
        format=f"state format {version}",
        description="The buffers of the aggregate functions by grouping key and session window.",
    )
    table = RawTable(
        operator.source(), operator.raw_keys(), keys, columns_of=lambda values: values[:-1]
    )
    return [SessionLayout(definition, table, read)]


def _positions(
    operator: OperatorTables, fields: Sequence[Field], key_fields: Sequence[Field]
) -> tuple[int, list[int]]:
    """Position of the window in the value, and of all fields that are not in the key."""
    names = {field.name for field in key_fields}
    kept = [position for position, field in enumerate(fields) if field.name not in names]
    for position in kept:
        if _is_window(fields[position]):
            return position, kept
    raise operator.damaged("the rows of its session windows have no window")


def _is_window(field: Field) -> bool:
    parts = [(part.name, part.type.kind) for part in field.type.fields]
    return parts == [("start", Kind.TIMESTAMP), ("end", Kind.TIMESTAMP)]
