"""What an operator does with its elements: picklable descriptions, made by the driver.

`declared_states` tells the driver which states an operator will register, so that
a name claimed twice is refused before the job starts.
"""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from queryable_state.streaming.descriptors import ValueStateDescriptor
from queryable_state.streaming.functions import ReducingStateDescriptor, UserFunctionError
from queryable_state.streaming.hooks import refuse_uncalled_hooks
from queryable_state.streaming.runtime.operators.context import DeclaringContext
from queryable_state.streaming.runtime.operators.open_functions import OpenFunctions
from queryable_state.v1.registration_pb2 import StateKind
from queryable_state.wire.errors import InvalidRequestError, QueryableStateError
from queryable_state.wire.schema.types import Field, Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from queryable_state.streaming.descriptors import StateDescriptor
    from queryable_state.streaming.functions import KeyedProcessFunction
    from queryable_state.streaming.runtime.columns.row_order import OrderColumn

_log = logging.getLogger("queryable_state.streaming")


@dataclass(frozen=True)
class KeyedProcess:
    """Runs a function over the elements row by row; puts out what it yields."""

    function: KeyedProcessFunction

    def __post_init__(self) -> None:
        refuse_uncalled_hooks(self.function)


@dataclass(frozen=True)
class Reduce:
    """Reduces the elements of a key; puts out the reduced value once for each element."""

    descriptor: ReducingStateDescriptor


@dataclass(frozen=True)
class ReducingSink:
    """Reduces the elements of a key into a queryable state; puts out nothing."""

    descriptor: ReducingStateDescriptor


@dataclass(frozen=True)
class LatestValueSink:
    """Keeps the last element of each key in a queryable state; puts out nothing."""

    descriptor: ValueStateDescriptor
    latest_by: tuple[OrderColumn, ...] = ()
    """Columns whose greatest value, over all batches, is the last element's; empty: the last
    element of the newest batch is."""
    order_descriptor: ValueStateDescriptor | None = None
    """A state of its own for what `latest_by` says of the stored element; None: the stored
    element is a row that has these columns."""

    @staticmethod
    def of(
        descriptor: ValueStateDescriptor,
        value_columns: Sequence[str],
        latest_by: tuple[OrderColumn, ...] = (),
    ) -> LatestValueSink:
        """The sink for elements of these columns."""
        info = descriptor.value_type
        is_row = info is not None and info.kind == Kind.ROW
        if not latest_by or (is_row and {key.column for key in latest_by} <= set(value_columns)):
            return LatestValueSink(descriptor, latest_by)
        fields = tuple(Field(key.name, key.type) for key in latest_by)
        apart = ValueStateDescriptor(
            f"{descriptor.name}.latest_by", TypeInfo(Kind.ROW, fields=fields)
        )
        return LatestValueSink(descriptor, latest_by, apart)


class AggregateKind(StrEnum):
    """The built-in aggregations."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True)
class FieldAggregate:
    """One aggregated column; the aggregate has the column's type."""

    column: str
    kind: AggregateKind
    type: TypeInfo

    def __post_init__(self) -> None:
        allowed = _SUMMABLE if self.kind == AggregateKind.SUM else _COMPARABLE
        if self.type.kind not in allowed:
            raise InvalidRequestError(
                f"{self.kind}({self.column!r}): there is no {self.kind} of {self.type}; cast the "
                "column before"
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
    """Built-in sum, min and max; puts out one row a batch for each key touched.

    The row has the key columns, then the aggregated columns. As in Spark nulls
    are ignored, and the aggregate of nothing but nulls is null. A sum beyond the
    range of its integer type fails the task.
    """

    fields: tuple[FieldAggregate, ...]
    state_name: str
    queryable_name: str | None = None
    renamed_fields: Mapping[str, str] = field(default_factory=dict)
    dropped_fields: Sequence[str] = ()

    @property
    def state_type(self) -> TypeInfo:
        """The aggregate's own type where there is one; a ROW of several."""
        if len(self.fields) == 1:
            return self.fields[0].type
        return TypeInfo(Kind.ROW, fields=tuple(Field(f.column, f.type) for f in self.fields))

    @property
    def descriptor(self) -> StateDescriptor:
        """The state the aggregates are kept in."""
        descriptor = _AggregateStateDescriptor(self.state_name, self.state_type)
        if self.queryable_name is not None:
            descriptor.set_queryable(self.queryable_name)
        descriptor.set_renamed_fields(self.renamed_fields)
        descriptor.set_dropped_fields(self.dropped_fields)
        return descriptor


class _AggregateStateDescriptor(ValueStateDescriptor):
    """Registered as what it is to a reader, a reduced value; no Python function reduces it."""

    kind = StateKind.REDUCING


Operator = KeyedProcess | Reduce | ReducingSink | LatestValueSink | Aggregate


def declared_states(operator: Operator) -> list[StateDescriptor]:
    """The states an operator will register.

    Those of a `KeyedProcess` are known only by opening a copy of its function,
    which is closed again.
    """
    match operator:
        case KeyedProcess(function):
            context = DeclaringContext()
            opened = copy.deepcopy(function)
            with OpenFunctions(f"function {type(function).__name__}") as functions:
                functions.open(opened, context)
            return context.descriptors
        case LatestValueSink(descriptor, _, order_descriptor):
            return [descriptor] if order_descriptor is None else [descriptor, order_descriptor]
        case Reduce() | ReducingSink() | Aggregate():
            return [operator.descriptor]
    raise InvalidRequestError(f"not an operator: {operator!r}")


def driver_declared_states(operator: Operator, name: str) -> list[StateDescriptor] | None:
    """The states an operator will register, as far as the driver can know.

    None: only a task can open its function, which needs what only executors have.
    """
    try:
        return declared_states(operator)
    except Exception as problem:
        refused = isinstance(problem, QueryableStateError)
        if not isinstance(operator, KeyedProcess) or (
            refused and not isinstance(problem, UserFunctionError)
        ):
            raise
        _log.debug("operator %s cannot be opened in the driver: %r", name, problem)
        return None


def with_renamed_fields(operator: Operator, renamed: Mapping[str, str]) -> Operator:
    """The operator whose one state has fields that had other names; see `StateDescriptor`."""
    match operator:
        case Aggregate():
            changed = replace(operator, renamed_fields=dict(renamed))
            _ = changed.descriptor  # Refuses what is no field of the state.
            return changed
        case Reduce() | ReducingSink() | LatestValueSink():
            operator.descriptor.set_renamed_fields(renamed)
            return operator
    raise _has_descriptors("set_renamed_fields")


def with_dropped_fields(operator: Operator, dropped: Iterable[str]) -> Operator:
    """The operator whose one state has lost fields; see `StateDescriptor`."""
    match operator:
        case Aggregate():
            changed = replace(operator, dropped_fields=tuple(dropped))
            _ = changed.descriptor  # Refuses what is still a field of the state.
            return changed
        case Reduce() | ReducingSink() | LatestValueSink():
            operator.descriptor.set_dropped_fields(dropped)
            return operator
    raise _has_descriptors("set_dropped_fields")


def _has_descriptors(method: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"a process function has descriptors of its own: call {method} on the descriptor of the "
        "state"
    )
