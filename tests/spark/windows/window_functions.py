"""Window functions, pickled by value."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from queryable_state.streaming import (
    AggregateFunction,
    AllWindowFunction,
    ProcessWindowFunction,
    SessionWindowTimeGapExtractor,
    TimestampAssigner,
    WindowFunction,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


class SecondColumn(TimestampAssigner):
    """The second field of an element."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


class Counted(ProcessWindowFunction):
    """Key, start and number of elements of a window."""

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        return [(key, context.window().start, len(list(elements)))]


class OfSum(WindowFunction):
    """Key, number and sum of a count window."""

    def apply(self, key: str, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return [(key, window.id, sum(each[1] for each in inputs))]


class OfAll(AllWindowFunction):
    """Start and number of elements of a window."""

    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return [("all", window.start, len(list(inputs)))]


class OwnGap(SessionWindowTimeGapExtractor):
    """The second field as the gap."""

    def extract(self, element: Any) -> int:
        return int(element[1])


class Sum(AggregateFunction):
    """The sum of the second fields."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + int(value[1])

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
