"""States of deduplication: the keys that were seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.native_state.operators.layouts.key_columns import KeyColumns
from queryable_state.server.native_state.operators.layouts.value_layout import signed_value_layout
from queryable_state.v1 import registration_pb2
from queryable_state.wire.schema.type_model import Kind, TypeInfo
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from queryable_state.server.native_state.operators.operator_tables import OperatorTables
    from queryable_state.server.native_state.operators.state_layout import StateLayout


def deduplication(operator: OperatorTables) -> list[StateLayout]:
    """The keys of `dropDuplicates`, each with the value true."""
    keys = KeyColumns(operator.key_fields())
    seen_type = TypeInfo(Kind.BOOLEAN)
    seen = ValueCodec.of(seen_type).encode(True)
    definition = operator.definition(
        kind=registration_pb2.VALUE,
        key_type=keys.key_type,
        value_type=seen_type,
        operator="deduplication",
        format="",
        description="True for each key that was seen and not evicted.",
    )
    return [signed_value_layout(operator, definition, keys, lambda _, __: seen)]


def deduplication_within_watermark(operator: OperatorTables) -> list[StateLayout]:
    """The keys of `dropDuplicatesWithinWatermark`, each with the time when Spark forgets it."""
    keys, rows = KeyColumns(operator.key_fields()), operator.value_rows()
    values = rows.values()
    definition = operator.definition(
        kind=registration_pb2.VALUE,
        key_type=keys.key_type,
        value_type=values.value_type,
        operator="deduplication",
        format="",
        description="The watermark, in microseconds, at which Spark forgets a key that was seen.",
    )
    row, encode = rows.row, values.encode
    return [signed_value_layout(operator, definition, keys, lambda raw, _: encode(row(raw)))]
