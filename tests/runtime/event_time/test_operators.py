"""Timestamps of the outputs of stateful operators."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.event_time.timed_outputs import outputs, timed
from tests.samples import sampled

from queryable_state.streaming import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    ReducingStateDescriptor,
    Types,
)
from queryable_state.streaming.runtime.operators.operators import Reduce, UnkeyedStep
from queryable_state.streaming.streams.steps import step_of
from queryable_state.streaming.testing import (
    BroadcastOperatorHarness,
    KeyedOperatorHarness,
    TwoInputOperatorHarness,
)
from queryable_state.streaming.testing.harness_input import HarnessInput
from queryable_state.streaming.testing.operator_harness import OperatorHarness

if TYPE_CHECKING:
    from collections.abc import Iterator

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ODD = OutputTag("odd", Types.INT())
ROW = "k STRING, n INT, at TIMESTAMP"
ROWS = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.integers(0, 3), st.none() | st.integers(-(10**12), 10**13)
    ),
    max_size=20,
)
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())

Rows = list[tuple[str, int, int | None]]


def at(millis: int | None) -> datetime | None:
    return None if millis is None else EPOCH + timedelta(milliseconds=millis)


def with_times(rows: Rows) -> list[tuple[Any, ...]]:
    return [(key, number, at(millis)) for key, number, millis in rows]


def repeated(value: Any, ctx: Any) -> Iterator[Any]:
    """A number as often as it says: its timestamp if it is even, else to a side output."""
    for _ in range(value.n):
        yield (ODD, value.n) if value.n % 2 else ctx.timestamp()


class Repeated(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        return repeated(value, ctx)


def expected(rows: Rows, *, odd: bool) -> list[tuple[Any, int | None]]:
    found = [(number, millis) for _, number, millis in rows for _ in range(number)]
    if odd:
        return [(number, millis) for number, millis in found if number % 2]
    return [(millis, millis) for number, millis in found if number % 2 == 0]


@settings(max_examples=sampled(40))
@given(ROWS, st.integers(1, 4))
def test_each_output_has_the_timestamp_of_the_element_it_was_emitted_for(
    rows: Rows, chunk_rows: int
) -> None:
    for number in (0, 1):
        harness = timed(
            KeyedOperatorHarness(
                Repeated(),
                ROW,
                key_by="k",
                output_type=Types.LONG(),
                side_outputs=[ODD],
                parallelism=1,
                chunk_rows=chunk_rows,
            )
        )
        assert outputs(harness, with_times(rows), number=number) == expected(rows, odd=number == 1)


def test_a_reduced_element_has_the_timestamp_of_the_newest_element() -> None:
    add = ReducingStateDescriptor("sum", lambda a, b: (a[0], a[1] + b[1]), "k STRING, n INT")
    harness = timed(
        KeyedOperatorHarness(
            Reduce(add), ROW, key_by="k", output_type="k STRING, n INT", parallelism=1
        )
    )
    first = outputs(harness, with_times([("a", 1, 500), ("b", 7, 100), ("a", 2, 300)]))
    assert first == [(("a", 1), 500), (("b", 7), 100), (("a", 3), 300)]
    assert outputs(harness, with_times([("a", 1, None)])) == [(("a", 4), None)]


class Stamped(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield 1, ctx.timestamp()

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield 2, ctx.timestamp()


def test_an_output_of_two_streams_has_the_timestamp_of_the_element_that_caused_it() -> None:
    harness = timed(
        TwoInputOperatorHarness(
            Stamped(),
            ROW,
            "k STRING",
            key_by=("k", "k"),
            output_type=Types.TUPLE([Types.INT(), Types.LONG()]),
            parallelism=1,
        )
    )
    rows = with_times([("a", 1, 5), ("b", 1, None)])
    assert outputs(harness, rows, [("a",)]) == [((1, 5), 5), ((1, None), None), ((2, None), None)]


class KeyedRules(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        return repeated(value, ctx)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield ODD, 1
        yield ctx.timestamp()


class Rules(BroadcastProcessFunction):
    process_element = KeyedRules.process_element
    process_broadcast_element = KeyedRules.process_broadcast_element


def test_elements_and_broadcast_elements_have_their_own_timestamps() -> None:
    functions: list[tuple[Any, Any]] = [(KeyedRules(), "k"), (Rules(), ())]
    for function, key_by in functions:
        for number, wanted in (0, [(9, 9), (5, 5), (5, 5)]), (1, [(1, 9), (3, 6), (3, 6), (3, 6)]):
            harness = timed(
                BroadcastOperatorHarness(
                    function,
                    [RULES],
                    ROW,
                    "rule STRING, at TIMESTAMP",
                    key_by=key_by,
                    output_type=Types.LONG(),
                    side_outputs=[ODD],
                    parallelism=1,
                )
            )
            rows, rules = with_times([("a", 2, 5), ("a", 3, 6)]), [("r", at(9))]
            assert outputs(harness, rows, rules, number=number) == wanted


class Checkpointed(ProcessFunction, CheckpointedFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        return repeated(value, ctx)

    def initialize_state(self, context: Any) -> None:
        pass

    def snapshot_state(self, context: Any) -> None:
        pass


def checkpointed() -> OperatorHarness:
    return timed(
        OperatorHarness(
            UnkeyedStep(step_of(Checkpointed(), ProcessFunction)),
            [HarnessInput.of(ROW, what="input", key_by="k")],
            output_type=Types.LONG(),
            side_outputs=[ODD],
            parallelism=1,
        )
    )


def test_a_function_with_operator_state_passes_the_timestamps_on() -> None:
    rows: Rows = [("a", 2, 7), ("a", 3, None), ("a", 1, -1)]
    for number in (0, 1):
        assert outputs(checkpointed(), with_times(rows), number=number) == expected(
            rows, odd=number == 1
        )


def test_side_outputs_of_a_function_with_operator_state_are_not_lost() -> None:
    rows = with_times([("a", 1, number) for number in range(25_000)])
    found = outputs(checkpointed(), rows, number=1)
    assert found == [(1, number) for number in range(25_000)]
