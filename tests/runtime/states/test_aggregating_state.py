"""Aggregating state: its accumulator and its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.streaming.functions import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
)
from queryable_state.streaming.testing import KeyedOperatorHarness
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from queryable_state.streaming.functions import Context, RuntimeContext


class Average(AggregateFunction[float, tuple[float, int], float]):
    def create_accumulator(self) -> tuple[float, int]:
        return 0.0, 0

    def add(self, value: float, accumulator: tuple[float, int]) -> tuple[float, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[float, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[float, int], acc_b: tuple[float, int]) -> tuple[float, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Averages(KeyedProcessFunction):
    def __init__(self, accumulator_type: object, *, queryable: bool) -> None:
        self.accumulator_type = accumulator_type
        self.queryable = queryable

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = AggregatingStateDescriptor(
            "average", Average(), self.accumulator_type, "double" if self.queryable else None
        )
        if self.queryable:
            descriptor.set_queryable("averages")
        self.average = runtime_context.get_aggregating_state(descriptor)

    def process_element(self, value: Any, ctx: Context) -> list[float | None]:
        if value.v is None:
            self.average.clear()
        else:
            self.average.add(value.v)
        return [self.average.get()]


@pytest.mark.parametrize("accumulator_type", [None, Types.TUPLE(["double", "bigint"])])
@pytest.mark.parametrize("queryable", [True, False])
def test_an_aggregating_state_keeps_its_accumulator_and_its_result(
    accumulator_type: object, queryable: bool
) -> None:
    harness = KeyedOperatorHarness(
        Averages(accumulator_type, queryable=queryable),
        "k INT, v DOUBLE",
        key_by="k",
        output_type="double",
    )
    harness.process([(1, 1.0), (1, 2.0)])

    assert harness.process([(1, 6.0)]) == [3.0]
    # Without a result the harness shows the accumulator.
    assert harness.state("average", 1) == (3.0 if queryable else (9.0, 3))
    assert harness.process([(1, None)]) == [None]
    assert harness.state("average", 1) is None
