"""User functions, the descriptors that hold one, and the contexts passed to functions.

A task runs one subtask of an operator for one batch. Its call order is:

- `open` once, before any element. A `KeyedProcessFunction` must request every state here.
- `on_timer` for each timer that is due in the batch.
- `process_element` (`reduce`, `add`) for each element, in the order of `key_by`, else in arrival
  order.
- `close` once at the end, also if `open` or an element failed.

The functions of a `KeyedProcessFunction`'s states are opened after it and closed before it. Each
task has its own copy of a function: attributes do not survive the batch, only state does. The
driver opens and closes a copy of a `KeyedProcessFunction` to learn its states. Hooks of Flink's
functions that nothing would call are refused. Spark may run a task several times in one batch: the
state counts one run, but other side effects happen in each run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, overload

from queryable_state.streaming.descriptors import StateDescriptor, declared_type
from queryable_state.streaming.hooks import refuse_uncalled_hooks
from queryable_state.streaming.stateless.task_info import TaskInfo
from queryable_state.streaming.stateless.timers import TimedFunction
from queryable_state.v1.registration_pb2 import StateKind
from queryable_state.wire.errors import InvalidRequestError, JobError, Reason
from queryable_state.wire.schema.type_variables import ACC, IN, OUT, K, T, V
from queryable_state.wire.schema.types import TypeInfo, Types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from queryable_state import client
    from queryable_state.streaming.descriptors import (
        ListStateDescriptor,
        MapStateDescriptor,
        ValueStateDescriptor,
    )
    from queryable_state.streaming.state import (
        AggregatingState,
        ListState,
        MapState,
        ReducingState,
        ValueState,
    )
    from queryable_state.streaming.stateless.timers import TimeDomain, TimerService


class UserFunctionError(JobError):
    """A user function raised, or returned a value that does not fit its type: fix the function.

    The text names operator, subtask, batch and key; `__cause__` is the function's exception.
    """

    default_reason = Reason.USER_FUNCTION_FAILED


class Context(ABC, Generic[K]):
    """Key and clocks of the element that is being processed."""

    @abstractmethod
    def get_current_key(self) -> K:
        """Key of the element: a bare value, or a tuple if there are several key columns."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """Event time of the element in milliseconds since the epoch; None if it has none.

        It comes from the event-time column of the DataFrame's watermark. The output of a function
        has the timestamp of the element that the function emitted it for.
        """

    @abstractmethod
    def current_watermark(self) -> int:
        """Event-time watermark in milliseconds since the epoch; -2**63 before the first one."""

    @abstractmethod
    def timer_service(self) -> TimerService:
        """The clocks, and the timers of the key."""


class OnTimerContext(Context[K]):
    """Context of a timer that fires: `get_current_key` is its key, `timestamp` its timestamp."""

    @abstractmethod
    def time_domain(self) -> TimeDomain:
        """The clock of the timer."""


_Context: TypeAlias = Context
_OnTimerContext: TypeAlias = OnTimerContext


class Function(ABC):  # noqa: B024 - both hooks are optional
    """A user function; the module docstring has the call order."""

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027 - optional to override
        """Acquires resources of the task; a `KeyedProcessFunction` requests its states here."""

    def close(self) -> None:  # noqa: B027 - optional to override
        """Releases the resources that `open` acquired."""


class KeyedProcessFunction(TimedFunction, Function, Generic[K, IN, OUT]):
    """A function with state over the elements of a keyed stream.

    Key, elements and outputs may be named for type checkers: `KeyedProcessFunction[str, Row, Row]`.
    """

    Context: TypeAlias = _Context
    OnTimerContext: TypeAlias = _OnTimerContext

    @abstractmethod
    def process_element(self, value: IN, ctx: Context[K]) -> Iterable[OUT] | None:
        """Processes one element; yields or returns the outputs, None for no output."""

    def handle_initial_state(self, value: Any, ctx: Context) -> Iterable[Any] | None:
        """Writes one row of `process(..., initial_state=...)` to the state, before the elements of
        the operator's first batch; yields or returns outputs."""
        raise InvalidRequestError(f"{type(self).__name__} has no handle_initial_state: override it")


class ReduceFunction(Function, Generic[T]):
    """Combines two values of one type into one value of that type; must be associative."""

    @abstractmethod
    def reduce(self, value1: T, value2: T) -> T:
        """Combines the stored value (`value1`) with a new one (`value2`); must not return None."""


class AggregateFunction(Function, Generic[IN, ACC, OUT]):
    """Adds values to an accumulator and reads a result from it."""

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """A new, empty accumulator; not None."""

    @abstractmethod
    def add(self, value: IN, accumulator: ACC) -> ACC:
        """Adds a value and returns the accumulator, which may be the argument changed in place."""

    @abstractmethod
    def get_result(self, accumulator: ACC) -> OUT:
        """Computes the result of an accumulator; must not change the accumulator."""

    @abstractmethod
    def merge(self, acc_a: ACC, acc_b: ACC) -> ACC:
        """Merges two accumulators, either of which may be changed. Only called for windows that
        are merged."""


def reducer(function: ReduceFunction[T] | Callable[[T, T], T]) -> Callable[[T, T], T]:
    """The two-argument callable of a reduce function."""
    if isinstance(function, ReduceFunction):
        refuse_uncalled_hooks(function)
        return function.reduce
    if callable(function):
        return function
    raise InvalidRequestError(
        f"reduce_function: expected a ReduceFunction or a callable of two values, not {function!r}"
    )


class ReducingStateDescriptor(StateDescriptor, Generic[T]):
    """Descriptor of a `ReducingState` with a `ReduceFunction` or a callable of two values."""

    kind = StateKind.REDUCING

    _answer: client.ReducingState[T]

    @overload
    def __init__(
        self,
        name: str,
        reduce_function: ReduceFunction[Any] | Callable[[Any, Any], Any],
        type_info: TypeInfo[T] | type[T],
    ) -> None: ...

    @overload
    def __init__(
        self,
        name: str,
        reduce_function: ReduceFunction[Any] | Callable[[Any, Any], Any],
        type_info: object,
    ) -> None: ...

    def __init__(
        self,
        name: str,
        reduce_function: ReduceFunction[Any] | Callable[[Any, Any], Any],
        type_info: object,
    ) -> None:
        super().__init__(name, declared_type(name, "type_info", type_info))
        self.reduce: Callable[[Any, Any], Any] = reducer(reduce_function)
        self._function = reduce_function

    @property
    def type_info(self) -> TypeInfo[T]:
        return super().type_info

    @property
    def function(self) -> ReduceFunction[Any] | Callable[[Any, Any], Any]:
        return self._function

    def get_reduce_function(self) -> ReduceFunction[T] | Callable[[T, T], T]:
        """The reduce function, as it was given."""
        return self._function


class AggregatingStateDescriptor(StateDescriptor, Generic[IN, ACC, OUT]):
    """Descriptor of an `AggregatingState`.

    `state_type_info` is the type of the accumulator, by default a pickled object. Only a queryable
    state needs a `result_type_info`: its result is stored beside the accumulator, because queries
    never run the aggregate function.
    """

    kind = StateKind.AGGREGATING

    _answer: client.AggregatingState[OUT]

    def __init__(
        self,
        name: str,
        agg_function: AggregateFunction[IN, ACC, OUT],
        state_type_info: object = None,
        result_type_info: object = None,
    ) -> None:
        result = None
        if result_type_info is not None:
            result = declared_type(name, "result_type_info", result_type_info)
        super().__init__(name, result)
        if not isinstance(agg_function, AggregateFunction):
            raise InvalidRequestError(
                f"state {name!r}: agg_function: expected an AggregateFunction, not {agg_function!r}"
            )
        refuse_uncalled_hooks(agg_function)
        self.agg_function = agg_function
        state_type = Types.PICKLED_BYTE_ARRAY() if state_type_info is None else state_type_info
        self._accumulator_type = declared_type(name, "state_type_info", state_type)

    @property
    def accumulator_type(self) -> TypeInfo[ACC]:
        return self._accumulator_type

    type_info = accumulator_type

    @property
    def function(self) -> AggregateFunction[IN, ACC, OUT]:
        return self.agg_function

    def get_agg_function(self) -> AggregateFunction[IN, ACC, OUT]:
        """The aggregate function."""
        return self.agg_function

    def _shown_type(self) -> str:
        result = "no result" if self.value_type is None else self.value_type.simple_string()
        return f"{self._accumulator_type.simple_string()} -> {result}"

    def set_queryable(self, name: str) -> None:
        if self.value_type is None:
            raise InvalidRequestError(
                f"state {self.name!r} cannot be queryable without a result type: pass "
                "result_type_info= to its AggregatingStateDescriptor"
            )
        super().set_queryable(name)


class RuntimeContext(TaskInfo):
    """States, name and subtask of the task that opens a function."""

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor[T]) -> ValueState[T]:
        """The value state of this descriptor."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """The list state of this descriptor."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor[K, V]) -> MapState[K, V]:
        """The map state of this descriptor."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor[T]) -> ReducingState[T]:
        """The reducing state of this descriptor."""

    @abstractmethod
    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor[IN, ACC, OUT]
    ) -> AggregatingState[IN, OUT]:
        """The aggregating state of this descriptor."""
