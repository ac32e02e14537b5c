"""The harness of functions without keys runs them as a job's chain."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryable_state.streaming import (
    CoMapFunction,
    CoProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
    Types,
)
from queryable_state.streaming.functions import UserFunctionError
from queryable_state.streaming.testing import ChainHarness
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming import DataStream

READING = "sensor STRING, degrees DOUBLE"
ODD = OutputTag("odd", Types.INT())
calls: list[str] = []


class Parity(ProcessFunction):
    """Emits even numbers, and odd ones to a side output."""

    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield (ODD, value) if value % 2 else value


class Subtask(MapFunction):
    """Maps each element to (subtask, element, elements before it in the task)."""

    def __init__(self) -> None:
        self.seen = 0

    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()
        calls.append(f"open {self.subtask}")

    def close(self) -> None:
        calls.append(f"close {self.subtask}")

    def map(self, value: int) -> tuple[int, int, int]:
        self.seen += 1
        return self.subtask, value, self.seen


class Timestamp(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> list[Any]:
        return [ctx.timestamp()]


class Both(CoProcessFunction):
    """Emits (stream, timestamp)."""

    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield 1, ctx.timestamp()

    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield 2, ctx.timestamp()


def halved(stream: DataStream) -> DataStream:
    return stream.filter(lambda n: n % 2 == 0).map(lambda n: n // 2, Types.LONG())


def test_callables_run_one_after_another() -> None:
    harness = ChainHarness(
        lambda readings: (
            readings.map(lambda r: (r.sensor, (r.degrees - 32) / 1.8), READING)
            .filter(lambda r: r.degrees > 30)
            .flat_map(lambda r: [r.sensor] * 2, Types.STRING())
        ),
        READING,
    )
    assert harness.process([("s1", 212.0), ("s2", 32.0)]) == ["s1", "s1"]
    assert harness.process([]) == []


@given(st.lists(st.integers(-1000, 1000)), st.integers(1, 4), st.integers(1, 5))
def test_the_outputs_of_any_partitions_and_batches_are_the_same(
    numbers: list[int], parallelism: int, cut: int
) -> None:
    harness = ChainHarness(halved, Types.LONG(), parallelism=parallelism, chunk_rows=cut)
    whole = harness.process(numbers)
    split: list[int] = []
    for start in range(0, len(numbers), cut):
        split += harness.process(numbers[start : start + cut])
    expected = sorted(n // 2 for n in numbers if n % 2 == 0)
    assert sorted(whole) == sorted(split) == expected
    if parallelism == 1:
        assert whole == split


def test_each_task_opens_and_closes_its_own_copy_of_a_function() -> None:
    calls.clear()
    harness = ChainHarness(lambda numbers: numbers.map(Subtask()), Types.LONG(), parallelism=2)
    assert harness.process([5, 6, 7]) == [(0, 5, 1), (0, 7, 2), (1, 6, 1)]
    assert harness.process([8]) == [(0, 8, 1)]
    assert calls == ["open 0", "close 0", "open 1", "close 1"] * 2


def test_side_outputs_are_those_of_the_last_batch() -> None:
    harness = ChainHarness(
        lambda numbers: numbers.process(Parity(), Types.INT()), Types.INT(), side_outputs=[ODD]
    )
    assert harness.process([1, 2, 3]) == [2]
    assert harness.side_output(ODD) == [1, 3]
    harness.process([4])
    assert harness.side_output(ODD) == []
    with pytest.raises(InvalidRequestError, match=r"the side outputs of this harness are .*odd"):
        harness.side_output(OutputTag("even"))


def test_the_timestamp_is_that_of_the_event_time_column() -> None:
    harness = ChainHarness(
        lambda rows: rows.process(Timestamp(), Types.LONG()), "at TIMESTAMP", event_times=["at"]
    )
    assert harness.process([(datetime.fromtimestamp(7, UTC),), (None,)]) == [7000, None]
    with pytest.raises(InvalidRequestError, match="no column 'when'; the columns are at"):
        ChainHarness(lambda rows: rows.map(str), "at TIMESTAMP", event_times=["when"])


def test_two_inputs_have_their_types_methods_and_timestamps() -> None:
    harness = ChainHarness(
        lambda one, two: one.connect(two).process(Both(), "stream INT, at BIGINT"),
        "at TIMESTAMP",
        Types.STRING(),
        event_times=["at", ""],
    )
    assert harness.process([(datetime.fromtimestamp(7, UTC),)], ["x"]) == [(1, 7000), (2, None)]
    with pytest.raises(InvalidRequestError, match=r"2 inputs, but .* the elements of 1"):
        harness.process([])


def test_a_co_map_runs_without_keys() -> None:
    class Named(CoMapFunction):
        def map1(self, value: int) -> str:
            return f"first {value}"

        def map2(self, value: str) -> str | None:
            return value or None

    harness = ChainHarness(
        lambda one, two: one.connect(two).map(Named(), Types.STRING()).map(str.upper, "STRING"),
        Types.INT(),
        Types.STRING(),
    )
    assert harness.process([1], ["", "x"]) == ["FIRST 1", "X"]


def test_an_error_names_operator_element_partition_and_batch() -> None:
    harness = ChainHarness(
        lambda numbers: numbers.map(lambda n: 1 // n, Types.LONG()).name("inverse"),
        Types.LONG(),
    )
    harness.process([1])
    with pytest.raises(UserFunctionError, match=r"'inverse', partition 0 of batch 1: .*element 0"):
        harness.process([0])


def test_an_element_that_does_not_fit_its_input_is_refused() -> None:
    harness = ChainHarness(halved, Types.LONG())
    with pytest.raises(UserFunctionError, match="input 1 of the harness"):
        harness.process(["two"])


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (lambda s: s.key_by(lambda n: n), "KeyedOperatorHarness"),
        (lambda s: s, "not one chain of functions"),
        (lambda s: s.union(s).map(str), "not one chain of functions"),
        (lambda s: s.key_by("value").reduce(lambda a, b: a).map(str), "harness of its kind"),
    ],
)
def test_a_program_that_is_no_chain_is_refused(program: Any, text: str) -> None:
    with pytest.raises(InvalidRequestError, match=text):
        ChainHarness(program, Types.LONG())
