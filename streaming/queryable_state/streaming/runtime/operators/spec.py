"""Specification of one stateful operator, as the driver compiles it and each task receives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.streaming.runtime.states.state_spec import StateSpec
from queryable_state.wire.schema.types import Field, Kind, TypeInfo

if TYPE_CHECKING:
    from queryable_state.streaming.runtime.columns.row_order import OrderColumn
    from queryable_state.streaming.runtime.operators.operators import Operator

VALUE_COLUMN = "value"
"""The only column of a stream whose elements are not rows."""


@dataclass(frozen=True, kw_only=True)
class OperatorSpec(StateSpec):
    """One stateful operator; pickled into each of its tasks."""

    value_columns: tuple[str, ...]
    """Input columns of the element, in order. A column may be a key column too."""
    value_type: TypeInfo
    """A ROW with one field per value column; else the type of the only value column."""
    order: tuple[OrderColumn, ...] = ()
    """Order of a batch's rows before the operator reads them; empty: arrival order."""
    split_column: str = ""
    """Input column (int) with the number of a row's input partition, the tie-break between rows
    that are equal in `order`; empty: no tie-break."""
    operator: Operator
    """The function applied to the elements; an object of `runtime.operators`."""
    output_type: TypeInfo | None
    """None: no output. A ROW's fields are the output columns; else the only column is `value`."""
    secret: str
    """The job's secret, sent with every call to a state server."""
    coordinator_address: str = ""
    config_id: str = ""
    """Id of the job configuration that the driver registered with the coordinator; empty: none."""

    @property
    def output_fields(self) -> tuple[Field, ...]:
        """Output columns of the operator. A sink has no output rows, but one unused column."""
        if self.output_type is None:
            return (Field(VALUE_COLUMN, TypeInfo(Kind.BOOLEAN)),)
        if self.output_type.kind == Kind.ROW:
            return self.output_type.fields
        return (Field(VALUE_COLUMN, self.output_type),)
