"""States of streaming aggregations: the aggregate buffers by grouping key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.native_state.operators.layouts.key_columns import KeyColumns
from queryable_state.server.native_state.operators.layouts.raw_table import RawTable
from queryable_state.server.native_state.operators.layouts.value_layout import ValueLayout
from queryable_state.server.native_state.operators.operator_tables import DEFAULT_STORE
from queryable_state.v1 import registration_pb2

if TYPE_CHECKING:
    from queryable_state.server.native_state.operators.operator_tables import OperatorTables
    from queryable_state.server.native_state.operators.state_layout import StateLayout

FORMAT = "spark.sql.streaming.aggregation.stateFormatVersion"


def aggregation(operator: OperatorTables) -> list[StateLayout]:
    """The only state of an aggregation.

    State format 1 stores the grouping columns in front of the buffers, too; 2 does not.
    """
    version = operator.format_version(FORMAT, known=("1", "2"), default="1")
    key_fields, rows = operator.key_fields(), operator.value_rows()
    keys = KeyColumns(key_fields)
    first = len(key_fields) if version == "1" else 0
    values = rows.values(range(first, len(rows.fields)))
    row, encode = rows.row, values.encode
    table = RawTable(operator.source(DEFAULT_STORE), operator.raw_keys(), keys)
    definition = operator.definition(
        kind=registration_pb2.VALUE,
        key_type=keys.key_type,
        value_type=values.value_type,
        partitions=None if key_fields else 1,
        operator="aggregation",
        format=f"state format {version}",
        description="The buffers of the aggregate functions by grouping key.",
    )
    return [ValueLayout(definition, table, lambda raw, _: encode(row(raw)))]
