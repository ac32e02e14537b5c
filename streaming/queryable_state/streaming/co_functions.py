"""User functions of two connected streams.

The elements of the first stream go to the methods with 1, those of the second to the methods with
2. In each batch an operator with state reads the first stream's elements before the second's; a
function without state gets them in any order.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from queryable_state.streaming.functions import Context, Function, OnTimerContext
from queryable_state.streaming.stateless.functions import ElementContext
from queryable_state.streaming.stateless.timers import TimedFunction
from queryable_state.wire.schema.type_variables import IN1, IN2, OUT, K

if TYPE_CHECKING:
    from collections.abc import Iterable

_Context: TypeAlias = Context
_OnTimerContext: TypeAlias = OnTimerContext
_ElementContext: TypeAlias = ElementContext


class CoMapFunction(Function, Generic[IN1, IN2, OUT]):
    """Maps the elements of two streams to elements of one type."""

    @abstractmethod
    def map1(self, value: IN1) -> OUT | None:
        """Maps an element of the first stream; None for no output."""

    @abstractmethod
    def map2(self, value: IN2) -> OUT | None:
        """Maps an element of the second stream; None for no output."""


class CoFlatMapFunction(Function, Generic[IN1, IN2, OUT]):
    """Maps each element of two streams to any number of elements of one type."""

    @abstractmethod
    def flat_map1(self, value: IN1) -> Iterable[OUT] | None:
        """Yields or returns the outputs of an element of the first stream."""

    @abstractmethod
    def flat_map2(self, value: IN2) -> Iterable[OUT] | None:
        """Yields or returns the outputs of an element of the second stream."""


class CoProcessFunction(Function, Generic[IN1, IN2, OUT]):
    """A function without state over the elements of two streams; it may emit side outputs."""

    Context: TypeAlias = _ElementContext

    @abstractmethod
    def process_element1(self, value: Any, ctx: ElementContext) -> Iterable[Any] | None:
        """Processes an element of the first stream; yields or returns the outputs."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: ElementContext) -> Iterable[Any] | None:
        """Processes an element of the second stream; yields or returns the outputs."""


class KeyedCoProcessFunction(TimedFunction, Function, Generic[K, IN1, IN2, OUT]):
    """A function with state over the elements of two keyed streams, which share the state."""

    Context: TypeAlias = _Context
    OnTimerContext: TypeAlias = _OnTimerContext

    @abstractmethod
    def process_element1(self, value: IN1, ctx: Context[K]) -> Iterable[OUT] | None:
        """Processes an element of the first stream; yields or returns the outputs."""

    @abstractmethod
    def process_element2(self, value: IN2, ctx: Context[K]) -> Iterable[OUT] | None:
        """Processes an element of the second stream; yields or returns the outputs."""


class MapBoth(KeyedCoProcessFunction):
    """A `CoMapFunction` as a process function, so that it can use keyed state."""

    def __init__(self, function: CoMapFunction) -> None:
        self.wrapped = function

    def open(self, runtime_context: Any) -> None:
        self.wrapped.open(runtime_context)

    def close(self) -> None:
        self.wrapped.close()

    def process_element1(self, value: Any, ctx: Context) -> Iterable[Any]:
        return _if_any(self.wrapped.map1(value))

    def process_element2(self, value: Any, ctx: Context) -> Iterable[Any]:
        return _if_any(self.wrapped.map2(value))


class FlatMapBoth(KeyedCoProcessFunction):
    """A `CoFlatMapFunction` as a process function, so that it can use keyed state."""

    def __init__(self, function: CoFlatMapFunction) -> None:
        self.wrapped = function

    def open(self, runtime_context: Any) -> None:
        self.wrapped.open(runtime_context)

    def close(self) -> None:
        self.wrapped.close()

    def process_element1(self, value: Any, ctx: Context) -> Iterable[Any] | None:
        return self.wrapped.flat_map1(value)

    def process_element2(self, value: Any, ctx: Context) -> Iterable[Any] | None:
        return self.wrapped.flat_map2(value)


def _if_any(value: Any) -> Iterable[Any]:
    return () if value is None else (value,)
