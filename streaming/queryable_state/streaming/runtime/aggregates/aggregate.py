"""Built-in aggregations by key as picklable descriptions."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

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
    def descriptor(self) -> StateDescriptor:
        """Descriptor of the state of the aggregates."""
        return aggregate_descriptor(self.fields, self)


class StoredAggregates(Protocol):
    """How the state of built-in aggregates is named, queried and evolved."""

    @property
    def state_name(self) -> str: ...
    @property
    def queryable_name(self) -> str | None: ...
    @property
    def renamed_fields(self) -> Mapping[str, str]: ...
    @property
    def dropped_fields(self) -> Sequence[str]: ...


def aggregate_descriptor(
    fields: Sequence[FieldAggregate], stored: StoredAggregates
) -> StateDescriptor:
    """Descriptor of a state with the only aggregate, or with a ROW of several."""
    info = fields[0].type
    if len(fields) > 1:
        info = TypeInfo(Kind.ROW, fields=tuple(Field(f.column, f.type) for f in fields))
    descriptor = AggregateStateDescriptor(stored.state_name, info)
    if stored.queryable_name is not None:
        descriptor.set_queryable(stored.queryable_name)
    descriptor.set_renamed_fields(stored.renamed_fields)
    descriptor.set_dropped_fields(stored.dropped_fields)
    return descriptor


class AggregateStateDescriptor(ValueStateDescriptor):
    """Descriptor that registers a REDUCING state without a Python reduce function."""

    kind = StateKind.REDUCING
