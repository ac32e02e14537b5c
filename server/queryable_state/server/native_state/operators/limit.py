"""State of a limit: the number of rows that a query has let through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.native_state.operators.layouts.key_columns import KeyColumns
from queryable_state.server.native_state.operators.layouts.raw_table import RawTable
from queryable_state.server.native_state.operators.layouts.value_layout import ValueLayout
from queryable_state.v1 import registration_pb2

if TYPE_CHECKING:
    from queryable_state.server.native_state.operators.operator_tables import OperatorTables
    from queryable_state.server.native_state.operators.state_layout import StateLayout


def limit(operator: OperatorTables) -> list[StateLayout]:
    """The counter of `limit(n)`, whose only raw key is a row of one null."""
    keys, rows = KeyColumns(()), operator.value_rows()
    values = rows.values()
    definition = operator.definition(
        kind=registration_pb2.VALUE,
        key_type=keys.key_type,
        value_type=values.value_type,
        partitions=1,
        operator="limit",
        format="",
        description="The number of rows that the limit has let through, at key 0.",
    )
    table = RawTable(
        operator.source(),
        operator.raw_keys(),
        keys,
        columns_of=lambda _: (),
        values_of=lambda _: (None,),
    )
    row, encode = rows.row, values.encode
    return [ValueLayout(definition, table, lambda raw, _: encode(row(raw)))]
