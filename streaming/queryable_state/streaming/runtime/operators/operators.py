"""Operators as picklable descriptions, which the driver creates and tasks run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from queryable_state.streaming.descriptors import ValueStateDescriptor
from queryable_state.streaming.functions import Function
from queryable_state.streaming.hooks import refuse_uncalled_hooks, user_function
from queryable_state.streaming.operator_state.checkpointed import (
    HOOKS,
    CheckpointedFunction,
    CheckpointListener,
    ListCheckpointed,
)
from queryable_state.streaming.runtime.aggregates.aggregate import Aggregate
from queryable_state.streaming.runtime.aggregates.windowed_aggregate import WindowedAggregate
from queryable_state.streaming.runtime.windows.window_operator import WindowOperator
from queryable_state.streaming.stateless.timers import TimedFunction, has_timers
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.keys.time_window import TIME_WINDOW_TYPE
from queryable_state.wire.schema.types import Field, Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from queryable_state.streaming.co_functions import KeyedCoProcessFunction
    from queryable_state.streaming.descriptors import MapStateDescriptor, StateDescriptor
    from queryable_state.streaming.functions import KeyedProcessFunction, ReducingStateDescriptor
    from queryable_state.streaming.operator_state.broadcast_functions import (
        BroadcastProcessFunction,
        KeyedBroadcastProcessFunction,
    )
    from queryable_state.streaming.runtime.columns.row_order import OrderColumn
    from queryable_state.streaming.runtime.operators.sink_window import SinkWindow
    from queryable_state.streaming.runtime.stateless.steps import Step
    from queryable_state.streaming.vectorised.functions import KeyedBatchProcessFunction

_KEYED_HOOKS = {**HOOKS, "on_timer": (TimedFunction,)}
"""The hooks of an operator whose function may have timers."""


@dataclass(frozen=True)
class FunctionParts:
    """What the run of a keyed function has besides keyed states. The driver finds it once, and a
    task composes its run of these parts only."""

    timers: bool
    """True if the function has `on_timer`."""
    checkpoints: bool
    """True if the function has operator state or follows checkpoints."""

    @staticmethod
    def of(function: Function) -> FunctionParts:
        """The parts of a function; raises InvalidRequestError if it has a hook that would never be
        called."""
        refuse_uncalled_hooks(function, _KEYED_HOOKS)
        checkpoints = CheckpointedFunction | ListCheckpointed | CheckpointListener
        return FunctionParts(
            timers=has_timers(function),
            checkpoints=isinstance(user_function(function), checkpoints),
        )


@dataclass(frozen=True)
class KeyedProcess:
    """Runs a function over the elements row by row; emits the function's outputs."""

    function: KeyedProcessFunction
    parts: FunctionParts = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", FunctionParts.of(self.function))


@dataclass(frozen=True)
class KeyedBroadcastProcess:
    """Runs a function over the elements of a keyed stream and of a broadcast stream."""

    function: KeyedBroadcastProcessFunction
    descriptors: tuple[MapStateDescriptor, ...]
    """Descriptors of the broadcast states."""

    def __post_init__(self) -> None:
        refuse_uncalled_hooks(self.function, _KEYED_HOOKS)


@dataclass(frozen=True)
class BroadcastProcess:
    """Runs a function over the elements of a stream without keys and of a broadcast stream."""

    function: BroadcastProcessFunction
    descriptors: tuple[MapStateDescriptor, ...]
    """Descriptors of the broadcast states."""

    def __post_init__(self) -> None:
        refuse_uncalled_hooks(self.function, HOOKS)


@dataclass(frozen=True)
class UnkeyedStep:
    """Runs a function with operator state over the elements of a stream without keys."""

    step: Step

    @property
    def function(self) -> Function:
        """The function, whose hooks are called."""
        assert isinstance(self.step.function, Function), "a plain callable has no state"
        return self.step.function


@dataclass(frozen=True)
class KeyedCoProcess:
    """Runs a function over the elements of two inputs; emits the function's outputs."""

    function: KeyedCoProcessFunction
    parts: FunctionParts = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", FunctionParts.of(self.function))


@dataclass(frozen=True)
class KeyedBatchProcess:
    """Runs a function over Arrow columns of the elements; emits the function's outputs."""

    function: KeyedBatchProcessFunction

    def __post_init__(self) -> None:
        refuse_uncalled_hooks(self.function)


@dataclass(frozen=True)
class Reduce:
    """Reduces the elements of each key; emits the reduced value for each element."""

    descriptor: ReducingStateDescriptor


@dataclass(frozen=True)
class ReducingSink:
    """Reduces the elements of each key into a queryable state; emits nothing."""

    descriptor: ReducingStateDescriptor


@dataclass(frozen=True)
class LatestValueSink:
    """Keeps the last element of each key in a queryable state; emits nothing."""

    descriptor: ValueStateDescriptor
    latest_by: tuple[OrderColumn, ...] = ()
    """The last element is the one with the greatest value of these columns over all batches;
    empty: the last element of the newest batch."""
    order_descriptor: ValueStateDescriptor | None = None
    """A separate state for the `latest_by` values of the stored element; None: the stored element
    is a row with these columns."""
    window: SinkWindow | None = None
    """The window of each element; None: elements have none."""

    @staticmethod
    def of(
        descriptor: ValueStateDescriptor,
        value_columns: Sequence[str],
        latest_by: tuple[OrderColumn, ...] = (),
        window: SinkWindow | None = None,
    ) -> LatestValueSink:
        """The sink for elements of these columns."""
        if window is not None and not window.is_key:
            descriptor = descriptor.in_namespaces(TIME_WINDOW_TYPE)
        info = descriptor.value_type
        is_row = info is not None and info.kind == Kind.ROW
        if not latest_by or (is_row and {key.column for key in latest_by} <= set(value_columns)):
            return LatestValueSink(descriptor, latest_by, window=window)
        fields = tuple(Field(key.name, key.type) for key in latest_by)
        apart = ValueStateDescriptor(
            f"{descriptor.name}.latest_by", TypeInfo(Kind.ROW, fields=fields)
        )
        if descriptor.ttl_config is not None:
            apart.enable_time_to_live(descriptor.ttl_config)
        apart = apart.in_namespaces(descriptor.namespace_type)
        return LatestValueSink(descriptor, latest_by, apart, window)

    @property
    def descriptors(self) -> list[StateDescriptor]:
        """The descriptors of all states, with the timers."""
        found: list[StateDescriptor] = [self.descriptor]
        if self.order_descriptor is not None:
            found.append(self.order_descriptor)
        if self.window is not None:
            found.append(self.window.timers)
        return found


Operator = (
    KeyedProcess
    | KeyedCoProcess
    | KeyedBatchProcess
    | KeyedBroadcastProcess
    | BroadcastProcess
    | UnkeyedStep
    | Reduce
    | ReducingSink
    | LatestValueSink
    | Aggregate
    | WindowedAggregate
    | WindowOperator
)


def with_renamed_fields(operator: Operator, renamed: Mapping[str, str]) -> Operator:
    """The operator with renamed fields in its state; see `StateDescriptor.set_renamed_fields`."""
    match operator:
        case Aggregate() | WindowedAggregate():
            changed = replace(operator, renamed_fields=dict(renamed))
            _ = changed.descriptor  # Raises if a path is not a field of the state.
            return changed
        case Reduce() | ReducingSink() | LatestValueSink():
            operator.descriptor.set_renamed_fields(renamed)
            return operator
        case WindowOperator():
            operator.contents.set_renamed_fields(renamed)
            return operator
    raise _has_descriptors("set_renamed_fields")


def with_dropped_fields(operator: Operator, dropped: Iterable[str]) -> Operator:
    """The operator with dropped fields in its state; see `StateDescriptor.set_dropped_fields`."""
    match operator:
        case Aggregate() | WindowedAggregate():
            changed = replace(operator, dropped_fields=tuple(dropped))
            _ = changed.descriptor  # Raises if a path is still a field of the state.
            return changed
        case Reduce() | ReducingSink() | LatestValueSink():
            operator.descriptor.set_dropped_fields(dropped)
            return operator
        case WindowOperator():
            operator.contents.set_dropped_fields(dropped)
            return operator
    raise _has_descriptors("set_dropped_fields")


def _has_descriptors(method: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"a process function declares its own descriptors: call {method} on the descriptor of the "
        "state"
    )
