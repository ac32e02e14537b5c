"""Timestamps of the outputs of functions without state."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.stateless.chains import run_timed, stream

from queryable_state.streaming import (
    CoProcessFunction,
    OutputTag,
    ProcessFunction,
    Types,
)
from queryable_state.streaming.graph.chains import Chain
from queryable_state.streaming.runtime.stateless.chain import ChainTask
from queryable_state.streaming.spark.plan.chain_frame import chain_spec

if TYPE_CHECKING:
    from collections.abc import Iterator

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ODD = OutputTag("odd", Types.INT())
ROW = "at timestamp, n int"


class Repeated(ProcessFunction):
    """Emits a number as often as it says: its timestamp if it is even, else to a side output."""

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        for _ in range(value.n):
            yield (ODD, value.n) if value.n % 2 else ctx.timestamp()


def times(rows: list[tuple[int | None, int]]) -> list[tuple[datetime | None, int]]:
    return [
        (None if at is None else EPOCH + timedelta(milliseconds=at), number) for at, number in rows
    ]


ROWS = st.lists(
    st.tuples(st.none() | st.integers(-(10**12), 10**13), st.integers(0, 5)), max_size=20
)


@given(ROWS, st.integers(1, 5))
def test_each_output_has_the_timestamp_of_the_element_it_was_emitted_for(
    rows: list[tuple[int | None, int]], cut: int
) -> None:
    made = stream(ROW, "at").process(Repeated(), Types.LONG())
    made._node.side_outputs = (ODD,)  # type: ignore[union-attr]
    main = [at for at, number in rows for _ in range(number) if number % 2 == 0]
    odd = [(number, at) for at, number in rows for _ in range(number) if number % 2]
    assert run_timed(made, times(rows), cut=cut) == [(at, at) for at in main]
    assert run_timed(made, times(rows), side="odd", cut=cut) == odd


@given(ROWS)
def test_a_chain_of_functions_keeps_the_timestamp(rows: list[tuple[int | None, int]]) -> None:
    made = (
        stream(ROW, "at")
        .map(lambda row: row.n, Types.INT())
        .filter(lambda number: number > 0)
        .flat_map(lambda number: range(number), Types.INT())
        .map(lambda number: str(number), Types.STRING())
    )
    wanted = [(str(each), at) for at, number in rows for each in range(number)]
    assert run_timed(made, times(rows)) == wanted


class Stamped(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Iterator[tuple[int, int | None]]:
        yield 1, ctx.timestamp()

    def process_element2(self, value: Any, ctx: Any) -> Iterator[tuple[int, int | None]]:
        yield 2, ctx.timestamp()


def test_of_two_streams_only_the_elements_of_one_may_have_timestamps() -> None:
    first, second = stream(ROW, "at"), stream(Types.INT())
    made = first.connect(second).process(Stamped(), Types.TUPLE([Types.INT(), Types.LONG()]))
    assert run_timed(made, times([(7, 1), (None, 2)]), [3, 4]) == [
        ((1, 7), 7),
        ((1, None), None),
        ((2, None), None),
        ((2, None), None),
    ]


def test_keys_are_added_behind_the_timestamps() -> None:
    made = stream(ROW, "at").map(lambda row: row.n, Types.INT())
    keyed = made.key_by(lambda number: number % 2, Types.INT())._input.node
    made._node = keyed
    assert run_timed(made, times([(7, 1), (8, 2)])) == [(1, 7), (2, 8)]


def test_a_chain_that_only_adds_keys_passes_the_timestamps_on() -> None:
    made = stream(Types.INT(), "__event_time").key_by(lambda number: number, Types.INT())
    nodes: Any = (made._input.node,)
    spec = chain_spec(Chain(nodes=nodes, parts=(0,), is_shared=False, emits_event_time=True))
    assert [field.name for field in spec.inputs[0].columns] == ["value", "__event_time"]
    rows = pa.record_batch({"value": pa.array([1, 2], pa.int32()), "__event_time": [7, None]})
    (found,) = ChainTask(spec, 0).run([rows])
    assert found.to_pydict() == {"value": [1, 2], "__event_time": [7, None], "key": [1, 2]}


def test_a_chain_reads_no_timestamps_that_nobody_needs() -> None:
    made = stream(ROW, "at").map(lambda row: row.n, Types.INT())
    chain = Chain(nodes=(made._node,), parts=(0,), is_shared=False)  # type: ignore[arg-type]
    spec = chain_spec(chain)
    assert spec.inputs[0].event_time == ""
    assert [field.name for field in spec.output_fields] == ["value"]
