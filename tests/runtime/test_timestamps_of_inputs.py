"""The timestamp of an element is its own, whatever the operator read before."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from queryable_state.streaming import KeyedCoProcessFunction, Types
from queryable_state.streaming.testing import TwoInputOperatorHarness

if TYPE_CHECKING:
    from collections.abc import Iterator


class Timestamps(KeyedCoProcessFunction):
    """Emits the timestamp of each element; -1 if it has none."""

    def process_element1(self, value: Any, ctx: Any) -> Iterator[int]:
        yield _given(ctx.timestamp())

    def process_element2(self, value: Any, ctx: Any) -> Iterator[int]:
        yield _given(ctx.timestamp())


def _given(timestamp: int | None) -> int:
    return -1 if timestamp is None else timestamp


def test_an_input_without_event_time_does_not_see_the_other_inputs() -> None:
    harness = TwoInputOperatorHarness(
        Timestamps(),
        "k STRING, ts TIMESTAMP",
        "k STRING",
        key_by=("k", "k"),
        output_type=Types.LONG(),
        parallelism=1,
    )
    first, second = harness.spec.inputs
    harness.spec = replace(harness.spec, inputs=(replace(first, event_time="ts"), second))
    assert harness.process([("a", datetime.fromtimestamp(7, UTC))], [("a",)]) == [7000, -1]
