"""Stateful operators on a keyed stream."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from queryable_state.streaming.descriptors import ValueStateDescriptor
from queryable_state.streaming.functions import (
    Function,
    KeyedProcessFunction,
    ReduceFunction,
    ReducingStateDescriptor,
)
from queryable_state.streaming.graph.stream_text import keyed_text
from queryable_state.streaming.runtime.aggregates.aggregate import AggregateKind
from queryable_state.streaming.runtime.operators.operators import (
    KeyedBatchProcess,
    KeyedProcess,
    Reduce,
)
from queryable_state.streaming.stateless.timers import has_timers
from queryable_state.streaming.streams.keyed_functions import (
    FunctionWithState,
    KeyedReduce,
    StatefulEmits,
)
from queryable_state.streaming.streams.multiple_inputs import initial_input
from queryable_state.streaming.streams.rolling import Rolling, RollingAggregate
from queryable_state.streaming.vectorised.functions import KeyedBatchProcessFunction
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.inference import infer_type, returns_none
from queryable_state.wire.schema.types import Kind, TypeInfo, type_info

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from queryable_state.streaming.graph.nodes import OperatorInput, OperatorNode
    from queryable_state.streaming.runtime.operators.operators import Operator
    from queryable_state.streaming.streams.keyed_input import KeyedInput

S = TypeVar("S")


class KeyedOperators(Generic[S]):
    """The stateful operators of a keyed stream; S is the class of the resulting stream."""

    _input: KeyedInput

    def __repr__(self) -> str:
        own = self._input
        return f"<{type(self).__name__}: {keyed_text(own.node, own.keys, own.columns)}>"

    @abstractmethod
    def _operator_stream(self, node: OperatorNode) -> S:
        """The stream of an operator's output."""

    def process(
        self,
        func: KeyedProcessFunction,
        output_type: object = None,
        *,
        initial_state: DataFrame | None = None,
    ) -> S:
        """Runs a function with state over the elements.

        `output_type` is a row (`Types.ROW_NAMED`, a DDL string of columns), whose fields become
        the output columns, or another type for the only output column, `value`. Without it the
        type is that of the annotation of `process_element`, or of `on_timer` if the former returns
        None; else the outputs are pickled.

        `initial_state` is a static DataFrame with the key columns of the stream. In the first batch
        of the operator, and before its elements, `handle_initial_state` gets each of its rows. This
        is the job's first batch, or the first one after the operator was added to a job that
        continues from a checkpoint or savepoint. An operator with stored state does not read it.
        """
        if not isinstance(func, KeyedProcessFunction):
            raise InvalidRequestError(
                f"process takes an instance of KeyedProcessFunction, not {func!r}"
            )
        if output_type is None:
            name = f"process({type(func).__name__})"
            by_timers = has_timers(func) and returns_none(func.process_element)
            emitting = func.on_timer if by_timers else func.process_element
            output = infer_type(emitting, name, elements=True)
        else:
            output = type_info(output_type)
        before: tuple[OperatorInput, ...] = ()
        if initial_state is not None:
            before = (initial_input(initial_state, self._input.keys, func),)
        return self._stream("process", KeyedProcess(func), output, before)

    def process_batch(self, func: KeyedBatchProcessFunction, output_type: object) -> S:
        """Runs a function with state over Arrow columns of the elements.

        The function is called with many rows of many keys at once; `output_type` is as in
        `process`.
        """
        if not isinstance(func, KeyedBatchProcessFunction):
            raise InvalidRequestError(
                f"process_batch takes an instance of KeyedBatchProcessFunction, not {func!r}"
            )
        return self._stream("process-batch", KeyedBatchProcess(func), type_info(output_type))

    def reduce(self, func: ReduceFunction[Any] | Callable[[Any, Any], Any]) -> S:
        """Reduces the elements of each key; emits the reduced value for each element.

        A `ReduceFunction` with an `open` may use keyed state.
        """
        if isinstance(func, ReduceFunction) and type(func).open is not Function.open:
            element = self._input.element_type("reduce")
            reduced = KeyedReduce(func, ValueStateDescriptor("reduce", element))
            return self._stream("reduce", KeyedProcess(reduced), element)
        return self._reduced("reduce", func)

    def sum(self, position_to_sum: int | str = 0) -> S:
        """Emits, for each element, the key's first element with this field summed so far.

        Like `min`, `max`, `min_by` and `max_by` it takes a field by position or name. Null counts
        as no value. `aggregate_sum` is faster, and emits one row per key and batch.
        """
        return self._rolling(Rolling.SUM, position_to_sum)

    def min(self, position_to_min: int | str = 0) -> S:
        """Emits, for each element, the key's first element with the smallest value so far."""
        return self._rolling(Rolling.MIN, position_to_min)

    def max(self, position_to_max: int | str = 0) -> S:
        """Emits, for each element, the key's first element with the greatest value so far."""
        return self._rolling(Rolling.MAX, position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> S:
        """Emits, for each element, the key's element with the smallest value so far."""
        return self._rolling(Rolling.MIN_BY, position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> S:
        """Emits, for each element, the key's element with the greatest value so far."""
        return self._rolling(Rolling.MAX_BY, position_to_max_by)

    def aggregate_sum(self, *columns: str, queryable_name: str | None = None) -> S:
        """Sums columns by key, in the columns' own types; nulls are ignored.

        Like `aggregate_min` and `aggregate_max` it works on whole columns and emits, per batch, one
        row for each key of the batch: the key columns, then the sums. With `queryable_name` the
        state itself can be queried.
        """
        return self._aggregate(AggregateKind.SUM, columns, queryable_name)

    def aggregate_min(self, *columns: str, queryable_name: str | None = None) -> S:
        """Computes minima of columns by key; see `aggregate_sum`."""
        return self._aggregate(AggregateKind.MIN, columns, queryable_name)

    def aggregate_max(self, *columns: str, queryable_name: str | None = None) -> S:
        """Computes maxima of columns by key; see `aggregate_sum`."""
        return self._aggregate(AggregateKind.MAX, columns, queryable_name)

    def map_with_state(
        self,
        func: Callable[[Any, Any], tuple[Any, Any]],
        state_type: object,
        output_type: object = None,
        *,
        queryable_name: str | None = None,
    ) -> S:
        """Emits the output of `func(element, state) -> (output, new state)`.

        The state is None before the key's first element; a new state of None clears it.
        """
        return self._with_state(StatefulEmits.MAP, func, state_type, output_type, queryable_name)

    def flat_map_with_state(
        self,
        func: Callable[[Any, Any], tuple[Any, Any]],
        state_type: object,
        output_type: object = None,
        *,
        queryable_name: str | None = None,
    ) -> S:
        """Emits each output of `func(element, state) -> (outputs, new state)`; see
        `map_with_state`."""
        return self._with_state(
            StatefulEmits.FLAT_MAP, func, state_type, output_type, queryable_name
        )

    def filter_with_state(
        self,
        func: Callable[[Any, Any], tuple[bool, Any]],
        state_type: object,
        *,
        queryable_name: str | None = None,
    ) -> S:
        """Keeps the elements for which `func(element, state) -> (keep, new state)` returns true;
        see `map_with_state`."""
        return self._with_state(
            StatefulEmits.FILTER,
            func,
            state_type,
            self._input.element_type("filter_with_state"),
            queryable_name,
        )

    def _with_state(
        self,
        emits: StatefulEmits,
        func: Callable[[Any, Any], tuple[Any, Any]],
        state_type: object,
        output_type: object,
        queryable_name: str | None,
    ) -> S:
        kind = f"{emits.name.lower()}_with_state"
        if not callable(func):
            raise TypeError(f"{kind} takes a function of an element and a state, not {func!r}")
        descriptor = ValueStateDescriptor("state", type_info(state_type))
        if queryable_name is not None:
            descriptor.set_queryable(queryable_name)
        output = TypeInfo(Kind.PICKLED) if output_type is None else type_info(output_type)
        return self._stream(kind, KeyedProcess(FunctionWithState(func, emits, descriptor)), output)

    def _reduced(self, kind: str, func: ReduceFunction[Any] | Callable[[Any, Any], Any]) -> S:
        element = self._input.element_type(kind)
        return self._stream(kind, Reduce(ReducingStateDescriptor(kind, func, element)), element)

    def _rolling(self, kind: Rolling, position: int | str) -> S:
        element = self._input.element_type(kind)
        return self._reduced(str(kind), RollingAggregate(kind, position, element))

    def _aggregate(
        self, kind: AggregateKind, names: tuple[str, ...], queryable_name: str | None
    ) -> S:
        return self._operator_stream(self._input.aggregate(kind, names, queryable_name))

    def _stream(
        self,
        kind: str,
        operator: Operator,
        output: TypeInfo,
        before: Sequence[OperatorInput] = (),
    ) -> S:
        return self._operator_stream(self._input.operator(kind, operator, output, before=before))
