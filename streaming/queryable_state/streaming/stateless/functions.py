"""Functions over the elements of a stream, without state.

A chain of adjacent steps runs in one Python task for each partition of a batch. Its call order is:

- `open` of every function of the chain, in the order of the steps, before any element;
- for each element, in the order of its partition, the functions of the chain one after another;
- `close` in reverse order at the end, also if `open` or an element failed.

On a `KeyedStream`, `open` of a `MapFunction`, `FlatMapFunction` or `FilterFunction` may request
keyed state. Each task has its own copy of a function, so attributes do not survive the batch. Spark
may run a task several times; so outputs should depend on the element only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from queryable_state.streaming.functions import Function
from queryable_state.wire.schema.type_variables import IN, OUT, K

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.streaming.stateless.output_tag import OutputTag
    from queryable_state.streaming.stateless.timers import TimerService


class MapFunction(Function, Generic[IN, OUT]):
    """Maps each element to one element."""

    @abstractmethod
    def map(self, value: IN) -> OUT:
        """The output for an element."""


class FlatMapFunction(Function, Generic[IN, OUT]):
    """Maps each element to any number of elements."""

    @abstractmethod
    def flat_map(self, value: IN) -> Iterable[OUT] | None:
        """Yields or returns the outputs for an element; None for no output."""


class FilterFunction(Function, Generic[IN]):
    """Selects elements."""

    @abstractmethod
    def filter(self, value: IN) -> bool:
        """True if the element stays in the stream."""


class KeySelector(Function, Generic[IN, K]):
    """Computes the key of an element; must be deterministic."""

    @abstractmethod
    def get_key(self, value: IN) -> K:
        """The key of an element; not None."""


class Partitioner(Function, Generic[K]):
    """Assigns keys to partitions; must be deterministic."""

    @abstractmethod
    def partition(self, key: K, num_partitions: int) -> int:
        """The partition of a key, from 0 to `num_partitions` - 1."""


class ElementContext(ABC):
    """Timestamp and clocks of the element that is being processed."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """Event time of the element in milliseconds since the epoch; None if it has none."""

    @abstractmethod
    def timer_service(self) -> TimerService:
        """The clocks; timers cannot be registered."""


_ElementContext: TypeAlias = ElementContext


class ProcessFunction(Function, Generic[IN, OUT]):
    """Maps each element to any number of elements and side outputs."""

    Context: TypeAlias = _ElementContext

    @abstractmethod
    def process_element(
        self, value: IN, ctx: ElementContext
    ) -> Iterable[OUT | tuple[OutputTag, Any]] | None:
        """Processes one element; yields or returns outputs, `(tag, value)` for a side output."""
