"""Built-in aggregations by key as picklable descriptions."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from queryable_state.streaming.descriptors import ValueStateDescriptor
from queryable_state.v1.registration_pb2 import StateKind
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.types import Field, Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from queryable_state.streaming.descriptors import StateDescriptor


class AggregateKind(StrEnum):
    """The built-in aggregations."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True)
class FieldAggregate:
    """One aggregated column. The aggregate has the column's type."""

    column: str
    kind: AggregateKind
    type: TypeInfo

    def __post_init__(self) -> None:
        allowed = _SUMMABLE if self.kind == AggregateKind.SUM else _COMPARABLE
        if self.type.kind not in allowed:
            raise InvalidRequestError(
                f"{self.kind}({self.column!r}): {self.type} has no {self.kind}; cast the column "
                "before"
            )


_SUMMABLE = frozenset(
    (Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL)
)
_COMPARABLE = _SUMMABLE | {
    Kind.BOOLEAN,
    Kind.STRING,
    Kind.BINARY,
    Kind.DATE,
    Kind.TIMESTAMP,
    Kind.TIMESTAMP_NTZ,
}


@dataclass(frozen=True)
class Aggregate:
    """Built-in sum, min and max; emits, per batch, one row for each key of the batch.

    The row has the key columns, then the aggregated columns. As in Spark nulls are ignored, and
    the aggregate of only nulls is null. A sum that overflows its integer or decimal type fails the
    task.
    """

    fields: tuple[FieldAggregate, ...]
    state_name: str
    queryable_name: str | None = None
    renamed_fields: Mapping[str, str] = field(default_factory=dict)
    dropped_fields: Sequence[str] = ()

    @property
    def state_type(self) -> TypeInfo:
        """The type of the only aggregate, or a ROW of several aggregates."""
        if len(self.fields) == 1:
            return self.fields[0].type
        return TypeInfo(Kind.ROW, fields=tuple(Field(f.column, f.type) for f in self.fields))

    @property
    def descriptor(self) -> StateDescriptor:
        """Descriptor of the state of the aggregates."""
        descriptor = AggregateStateDescriptor(self.state_name, self.state_type)
        if self.queryable_name is not None:
            descriptor.set_queryable(self.queryable_name)
        descriptor.set_renamed_fields(self.renamed_fields)
        descriptor.set_dropped_fields(self.dropped_fields)
        return descriptor


class AggregateStateDescriptor(ValueStateDescriptor):
    """Descriptor that registers a REDUCING state without a Python reduce function."""

    kind = StateKind.REDUCING
