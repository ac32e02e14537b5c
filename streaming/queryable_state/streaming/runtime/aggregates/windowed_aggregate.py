"""Built-in aggregations by key and time window as picklable descriptions."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from queryable_state.streaming.runtime.aggregates.aggregate import (
    AggregateKind,
    FieldAggregate,
    aggregate_descriptor,
)
from queryable_state.streaming.runtime.timers.timer_descriptor import TimerDescriptor
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.keys.time_window import TIME_WINDOW_TYPE
from queryable_state.wire.schema.types import Field, Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from queryable_state.streaming.descriptors import StateDescriptor
    from queryable_state.streaming.runtime.aggregates.time_windows import TimeWindows
    from queryable_state.streaming.stateless.output_tag import OutputTag

WINDOW_FIELDS: Final = (
    Field("window_start", TypeInfo(Kind.TIMESTAMP)),
    Field("window_end", TypeInfo(Kind.TIMESTAMP)),
)
"""Output columns between the key and the aggregates: start, and end (exclusive), of the window."""

_LONG: Final = TypeInfo(Kind.LONG)
_DOUBLE: Final = TypeInfo(Kind.DOUBLE)
_FLOATS: Final = (Kind.FLOAT, Kind.DOUBLE)
_AVERAGED: Final = (Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG, *_FLOATS)


class ColumnFunction(StrEnum):
    """The aggregate functions of windows."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"
    AVG = "avg"
    COUNT = "count"


@dataclass(frozen=True)
class StoredColumn:
    """One column of the state, from which the aggregates are computed."""

    aggregate: FieldAggregate
    """Name, kind and type of the stored column."""
    source: str
    """The aggregated input column; empty: there is none, rows are counted."""
    is_count: bool = False
    """True if the column has the number of rows, or of values of `source` that are not null."""


@dataclass(frozen=True)
class WindowColumn:
    """One aggregate: an output column.

    Sum, minimum and maximum have the column's type. The average is a DOUBLE, and is stored as sum
    and count; the count is a LONG.
    """

    name: str
    """Name of the output column, and of the field of the state."""
    function: ColumnFunction
    source: str = ""
    """The aggregated column; empty for the count of rows."""
    source_type: TypeInfo = _LONG

    def __post_init__(self) -> None:
        """Raises InvalidRequestError if a column of this type has no such aggregate."""
        if self.function == ColumnFunction.AVG and self.source_type.kind not in _AVERAGED:
            raise InvalidRequestError(
                f"avg({self.source!r}): a column of type {self.source_type} has no average; cast "
                "the column to double before"
            )
        _ = self.stored

    @property
    def type(self) -> TypeInfo:
        """Type of the output column."""
        return _DOUBLE if self.function == ColumnFunction.AVG else self.source_type

    @property
    def stored(self) -> tuple[StoredColumn, ...]:
        """The columns of the state for this aggregate."""
        match self.function:
            case ColumnFunction.COUNT:
                return (self._count(self.name),)
            case ColumnFunction.AVG:
                total = _DOUBLE if self.source_type.kind in _FLOATS else _LONG
                sums = FieldAggregate(f"{self.name}_sum", AggregateKind.SUM, total)
                return (StoredColumn(sums, self.source), self._count(f"{self.name}_count"))
        kind = AggregateKind(self.function)
        return (StoredColumn(FieldAggregate(self.name, kind, self.source_type), self.source),)

    def _count(self, name: str) -> StoredColumn:
        aggregate = FieldAggregate(name, AggregateKind.SUM, _LONG)
        return StoredColumn(aggregate, self.source, is_count=True)


@dataclass(frozen=True, kw_only=True)
class WindowedAggregate:
    """Built-in aggregates of the elements of each key and window.

    Emits one row for each key and window when the window ends: the key columns, start and end of
    the window, then the aggregates. Nulls are ignored, and the aggregate of only nulls is null. A
    sum that overflows its integer or decimal type fails the task.

    A window stays for `lateness_ms` after its end; a batch that adds late elements to it emits its
    row again. An element is late if none of its windows is left.
    """

    columns: tuple[WindowColumn, ...]
    windows: TimeWindows
    lateness_ms: int = 0
    """Always 0 in processing time."""
    late_tag: OutputTag | None = None
    """The side output of late elements; None: they are dropped and counted."""
    state_name: str
    queryable_name: str | None = None
    renamed_fields: Mapping[str, str] = field(default_factory=dict)
    dropped_fields: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Raises InvalidRequestError if two columns of output or state have the same name."""
        names = [column.name for column in self.columns]
        for each in (names, [stored.aggregate.column for stored in self.stored]):
            twice = next((name for name in each if each.count(name) > 1), None)
            if twice is not None:
                raise InvalidRequestError(
                    f"two aggregates of a window need the column {twice!r} (an average x is stored "
                    "as x_sum and x_count): name one of them otherwise"
                )

    @property
    def stored(self) -> tuple[StoredColumn, ...]:
        """The columns of the state."""
        return tuple(stored for column in self.columns for stored in column.stored)

    @property
    def output_fields(self) -> tuple[Field, ...]:
        """The output columns behind the key."""
        own = tuple(Field(column.name, column.type) for column in self.columns)
        return (*WINDOW_FIELDS, *own)

    @property
    def is_exact(self) -> bool:
        """True if the aggregates do not depend on the order of additions."""
        return not any(
            stored.aggregate.kind == AggregateKind.SUM and stored.aggregate.type.kind in _FLOATS
            for stored in self.stored
        )

    @property
    def descriptor(self) -> StateDescriptor:
        """Descriptor of the state: the only stored column, or a ROW of several."""
        aggregates = [stored.aggregate for stored in self.stored]
        return aggregate_descriptor(aggregates, self).in_namespaces(TIME_WINDOW_TYPE)

    @property
    def timers(self) -> TimerDescriptor:
        """Descriptor of the timers of the windows."""
        return TimerDescriptor().in_namespaces(TIME_WINDOW_TYPE)
