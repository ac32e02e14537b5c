"""Functions of keyed streams that run as keyed process functions."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from queryable_state.streaming.functions import Context, Function, KeyedProcessFunction
from queryable_state.streaming.runtime.stateless.steps import Emits, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from queryable_state.streaming.descriptors import ValueStateDescriptor
    from queryable_state.streaming.functions import ReduceFunction, RuntimeContext
    from queryable_state.streaming.state import ValueState


class KeyedStep(KeyedProcessFunction):
    """A `MapFunction`, `FlatMapFunction` or `FilterFunction`, whose `open` may request states."""

    def __init__(self, step: Step) -> None:
        assert isinstance(step.function, Function)
        self.wrapped = step.function
        self._emits = step.emits
        self._method = step.methods[0]

    def open(self, runtime_context: RuntimeContext) -> None:
        self.wrapped.open(runtime_context)
        self._call = getattr(self.wrapped, self._method)

    def close(self) -> None:
        self.wrapped.close()

    def process_element(self, value: Any, ctx: Context) -> Iterable[Any] | None:
        result = self._call(value)
        match self._emits:
            case Emits.RESULT:
                return [result]
            case Emits.RESULTS:
                return result  # type: ignore[no-any-return]
            case Emits.ELEMENT:
                return [value] if result else None
        raise AssertionError(self._emits)


class KeyedReduce(KeyedProcessFunction):
    """A `ReduceFunction` whose `open` may request states."""

    def __init__(self, function: ReduceFunction[Any], reduced: ValueStateDescriptor) -> None:
        self.wrapped = function
        self._descriptor = reduced

    def open(self, runtime_context: RuntimeContext) -> None:
        self._reduced: ValueState[Any] = runtime_context.get_state(self._descriptor)
        self.wrapped.open(runtime_context)

    def close(self) -> None:
        self.wrapped.close()

    def process_element(self, value: Any, ctx: Context) -> Iterable[Any]:
        reduced = self._reduced.value()
        made = value if reduced is None else self.wrapped.reduce(reduced, value)
        self._reduced.update(made)
        return [made]


class StatefulEmits(Enum):
    """The outputs of a function of an element and a state."""

    MAP = "the output"
    FLAT_MAP = "each of the outputs"
    FILTER = "the element, if the output is true"


class FunctionWithState(KeyedProcessFunction):
    """A function from an element and the key's state to an output and the new state.

    The state is None before the first element, and a new state of None clears it.
    """

    def __init__(
        self,
        function: Callable[[Any, Any], Any],
        emits: StatefulEmits,
        descriptor: ValueStateDescriptor,
    ) -> None:
        self._function = function
        self._emits = emits
        self._descriptor = descriptor

    def open(self, runtime_context: RuntimeContext) -> None:
        self._state: ValueState[Any] = runtime_context.get_state(self._descriptor)

    def process_element(self, value: Any, ctx: Context) -> Iterable[Any] | None:
        result = self._function(value, self._state.value())
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(
                f"a function with state must return (output, new state), not {result!r}"
            )
        output, state = result
        if state is None:
            self._state.clear()
        else:
            self._state.update(state)
        match self._emits:
            case StatefulEmits.MAP:
                return [output]
            case StatefulEmits.FLAT_MAP:
                return output  # type: ignore[no-any-return]
            case StatefulEmits.FILTER:
                return [value] if output else None
