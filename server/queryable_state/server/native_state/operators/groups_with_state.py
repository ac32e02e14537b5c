"""States of flatMapGroupsWithState, mapGroupsWithState and applyInPandasWithState."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.server.native_state.operators.layouts.key_columns import KeyColumns
from queryable_state.server.native_state.operators.layouts.row_values import values_of_columns
from queryable_state.server.native_state.operators.layouts.value_layout import signed_value_layout
from queryable_state.server.native_state.rows.type_infos import distinct_names
from queryable_state.v1 import registration_pb2
from queryable_state.wire.schema.type_model import Field

if TYPE_CHECKING:
    from queryable_state.server.native_state.operators.layouts.key_columns import Columns
    from queryable_state.server.native_state.operators.layouts.row_values import RowValues
    from queryable_state.server.native_state.operators.operator_tables import OperatorTables
    from queryable_state.server.native_state.operators.state_layout import StateLayout
    from queryable_state.server.native_state.operators.stored_rows import StoredRows

FORMAT = "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion"
_NESTED = "2"


def groups_with_state(operator: OperatorTables) -> list[StateLayout]:
    """The state of each group, and its timeout if the query has timeouts.

    State format 2 stores the state as a struct, null if the group has only a timeout; format 1
    stores its fields. The value has the fields in both: all null for a group with a timeout alone.
    """
    version = operator.format_version(FORMAT, known=("1", _NESTED), default="1")
    keys, rows = KeyColumns(operator.key_fields()), operator.value_rows()
    values = _flat_values(rows) if version == _NESTED else rows.values()
    row, encode = rows.row, values.encode
    definition = operator.definition(
        kind=registration_pb2.VALUE,
        key_type=keys.key_type,
        value_type=values.value_type,
        operator="groups",
        format=f"state format {version}",
        description="The state of each group; timeoutTimestamp in milliseconds, -1: no timeout.",
    )
    return [signed_value_layout(operator, definition, keys, lambda raw, _: encode(row(raw)))]


def _flat_values(rows: StoredRows) -> RowValues:
    """The values of rows whose first field is the struct of the state."""
    state, *timeout = rows.fields
    no_state = (None,) * len(state.type.fields)

    def columns_of(row: Any) -> Columns:
        state, *timeout = rows.columns(row)
        return (*(no_state if state is None else state), *timeout)

    fields = [*state.type.fields, *timeout]
    names = distinct_names([field.name for field in fields])
    return values_of_columns(
        [Field(name, field.type) for name, field in zip(names, fields, strict=True)], columns_of
    )
