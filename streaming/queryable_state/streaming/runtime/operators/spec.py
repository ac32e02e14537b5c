"""Specification of one stateful operator, as the driver compiles it and each task receives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.streaming.runtime.columns.event_time import EVENT_TIME_FIELD
from queryable_state.streaming.runtime.states.state_spec import StateSpec
from queryable_state.wire.schema.types import Field, Kind, TypeInfo

if TYPE_CHECKING:
    from queryable_state.streaming.runtime.operators.operators import Operator
    from queryable_state.streaming.stateless.output_tag import OutputTag
    from queryable_state.wire.security.tls import Tls

VALUE_COLUMN = "value"
"""The only column of a stream whose elements are not rows."""


@dataclass(frozen=True, kw_only=True)
class OperatorSpec(StateSpec):
    """One stateful operator; pickled into each of its tasks."""

    operator: Operator
    """The function applied to the elements; an object of `runtime.operators`."""
    output_type: TypeInfo | None
    """None: no output. A ROW's fields are the output columns; else the only column is `value`."""
    side_outputs: tuple[OutputTag, ...] = ()
    """The side outputs; each is written as the main output is."""
    emits_event_time: bool = False
    """True if the rows of all outputs have the internal event-time column, as the last one."""
    pickled_keys: bool = False
    """True if the keys are pickles, which functions receive as objects."""
    secret: str
    """The job's secret, by which every call to a state server is signed."""
    tls: Tls | None = None
    """TLS of the calls to state servers, with the paths of this machine; None: clear text."""
    coordinator_address: str = ""
    config_id: str = ""
    """Id of the job configuration that the driver registered with the coordinator; empty: none."""

    @property
    def output_fields(self) -> tuple[Field, ...]:
        """Columns of the main output; empty: there is none."""
        return () if self.output_type is None else self._rows_of(self.output_type)

    def side_output_fields(self, index: int) -> tuple[Field, ...]:
        """Columns of a side output."""
        return self._rows_of(self.side_outputs[index].type_info)

    def _rows_of(self, output_type: TypeInfo) -> tuple[Field, ...]:
        time = (EVENT_TIME_FIELD,) if self.emits_event_time else ()
        return (*columns_of(output_type), *time)


def columns_of(output_type: TypeInfo) -> tuple[Field, ...]:
    """Columns of a stream of this type."""
    if output_type.kind == Kind.ROW:
        return output_type.fields
    return (Field(VALUE_COLUMN, output_type),)
