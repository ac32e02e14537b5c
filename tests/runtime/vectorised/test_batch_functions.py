"""Batch functions give the outputs and the state of the same function row by row."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.vectorised.running_totals import INPUT, OUTPUT, Oracle, RunningTotals
from tests.samples import sampled

from queryable_state.streaming import (
    BatchKeys,
    BatchRuntimeContext,
    BatchState,
    KeyedBatchProcessFunction,
    Types,
    ValueStateDescriptor,
)
from queryable_state.streaming.runtime.operators.declared_states import declared_states
from queryable_state.streaming.runtime.operators.operators import (
    KeyedBatchProcess,
)
from queryable_state.streaming.testing import InMemoryStateBackend, KeyedOperatorHarness
from queryable_state.streaming.testing.local_cluster import LocalCluster
from queryable_state.wire.event_time import NO_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

ROWS = st.tuples(
    st.sampled_from(["a", "b", "\x00", "é"]),
    st.integers(0, 2),
    st.none() | st.integers(-(2**40), 2**40),
    st.none() | st.text(max_size=3),
)


def harness_of(**options: Any) -> KeyedOperatorHarness:
    function = RunningTotals(partial=options.pop("partial", False))
    return KeyedOperatorHarness(function, INPUT, key_by=["k", "g"], output_type=OUTPUT, **options)


def by_key(rows: Iterable[Any]) -> dict[Any, list[Any]]:
    """Outputs in order by key; outputs of different keys have no order."""
    found = defaultdict(list)
    for k, g, *rest in rows:
        found[k, g].append(rest)
    return found


@settings(max_examples=sampled(80))
@given(
    batches=st.lists(st.lists(ROWS, max_size=15), max_size=5),
    chunk_rows=st.integers(1, 20),
    parallelism=st.integers(1, 4),
    partial=st.booleans(),
)
def test_any_cut_gives_the_outputs_and_the_state_of_the_rows_one_by_one(
    batches: list[list[Any]], chunk_rows: int, parallelism: int, partial: bool
) -> None:
    harness = harness_of(chunk_rows=chunk_rows, parallelism=parallelism, partial=partial)
    oracle = Oracle()

    for batch in batches:
        assert by_key(harness.process(batch)) == by_key(oracle.process(batch))

    for key, totals in oracle.totals.items():
        assert harness.state("totals", key) == totals
        assert harness.state("last", key) == oracle.last[key]


def test_a_replayed_batch_counts_once() -> None:
    harness = harness_of()
    rows = [("a", 1, 5, "x"), ("a", 1, None, "y")]
    assert harness.run(rows) == harness.run(rows) == [("a", 1, 1, 5, 5), ("a", 1, 2, 5, None)]
    harness.commit()
    assert harness.state("totals", ("a", 1)) == (2, 5, "y")
    assert harness.state("last", ("a", 1)) is None


def test_rows_come_in_the_order_of_key_by() -> None:
    harness = harness_of(order_by=("v", "desc"), chunk_rows=2)
    outputs = harness.process([("a", 1, 1, "first"), ("a", 1, 3, "third"), ("a", 1, 2, "second")])
    assert [row.last for row in outputs] == [3, 2, 1]
    assert harness.state("totals", ("a", 1)).note == "first"


def test_each_key_is_fetched_once_a_batch_and_all_states_together() -> None:
    harness = harness_of(parallelism=1, chunk_rows=10)
    harness.process([(f"k{i % 25}", 0, i, None) for i in range(100)])
    assert isinstance(harness.backend, InMemoryStateBackend)
    assert sum(len(fetch.keys) for fetch in harness.backend.fetches) == 2 * 25
    # The first chunk reads one state after the other; the later ones prefetch both in one call.
    assert harness.backend.fetch_calls == 2 + 2


def test_the_state_of_servers_is_that_of_the_memory(tmp_path: Path) -> None:
    oracle = Oracle()
    with LocalCluster(tmp_path, servers=2) as cluster:
        harness = harness_of(owner=cluster.start_query("job"), chunk_rows=7)
        for batch in range(3):
            rows = [(f"k{i % 5}", i % 3, i, str(batch)) for i in range(40)]
            assert by_key(harness.process(rows)) == by_key(oracle.process(rows))


class Echo(KeyedBatchProcessFunction):
    """Calls a function of keys, table and state; returns what it returns."""

    def __init__(self, call: Callable[[BatchKeys, pa.Table, BatchState], Any]) -> None:
        self.call = call

    def open(self, runtime_context: BatchRuntimeContext) -> None:
        runtime_context.get_state(ValueStateDescriptor("s", "float"))

    def process_batch(self, keys: BatchKeys, table: pa.Table, state: BatchState) -> Any:
        return self.call(keys, table, state)


def test_a_chunk_has_its_columns_in_their_declared_types_and_its_distinct_keys() -> None:
    seen: list[Any] = []

    def call(keys: BatchKeys, table: pa.Table, state: BatchState) -> None:
        seen.append((table.schema, keys.values.to_pylist(), keys.indices.to_pylist(), len(keys)))
        seen.append((state.timestamp(), state.current_watermark()))

    function = Echo(call)
    harness = KeyedOperatorHarness(
        function, "k DOUBLE, t TIMESTAMP, m MAP<STRING, INT>", key_by="k", output_type="bigint"
    )
    harness.process([(-0.0, None, None), (0.0, None, [("a", 1)]), (-0.0, None, None)])
    (schema, keys, indices, count), clocks = seen
    assert schema.types == [
        pa.float64(),
        pa.timestamp("us", tz="UTC"),
        pa.map_(pa.string(), pa.int32()),
    ]
    assert (keys, indices, count) == ([0.0], [0, 0, 0], 1)
    assert clocks == (1_000, NO_WATERMARK)


def test_a_read_is_the_stored_form_of_a_write_in_the_same_chunk_and_in_later_ones() -> None:
    rounded = 0.10000000149011612

    def call(keys: BatchKeys, table: pa.Table, state: BatchState) -> pa.Array:
        before = state["s"].values()
        state["s"].update(pa.array([0.1] * len(keys)))
        return pa.array([*before.to_pylist(), *state["s"].values().to_pylist()])

    harness = KeyedOperatorHarness(Echo(call), "k BIGINT", key_by="k", output_type="double")
    assert harness.process([(1,)]) == [None, rounded]
    assert harness.process([(1,)]) == [rounded, rounded]


class Maps(KeyedBatchProcessFunction):
    def open(self, runtime_context: BatchRuntimeContext) -> None:
        rows = Types.ROW_NAMED(["m", "p"], [Types.MAP(Types.STRING(), Types.INT()), Types.INT()])
        runtime_context.get_state(ValueStateDescriptor("row", rows))
        self.map = runtime_context.get_state(ValueStateDescriptor("map", "MAP<STRING, INT>"))

    def process_batch(self, keys: BatchKeys, table: pa.Table, state: BatchState) -> pa.Table:
        pairs = pa.array([[("a", 1), ("a", 2)]] * len(keys), pa.map_(pa.string(), pa.int32()))
        before = self.map.values(), state["row"].values().field("m")
        self.map.update(pairs)
        state["row"].update(pa.table({"p": pa.array([1] * len(keys)), "m": pairs}))
        after = self.map.values(), state["row"].values().field("m")
        return pa.table({"text": pa.array([str([c.to_pylist() for c in (*before, *after)])])})


def test_a_map_has_each_key_once_and_reads_alike_in_the_next_batch() -> None:
    harness = KeyedOperatorHarness(Maps(), "k BIGINT", key_by="k", output_type="text STRING")
    stored = "[('a', 2)]"
    assert harness.process([(1,)]) == [(f"[[None], [None], [{stored}], [{stored}]]",)]
    assert harness.process([(1,)]) == [(f"[[{stored}], [{stored}], [{stored}], [{stored}]]",)]
    assert harness.state("row", 1) == ({"a": 2}, 1)


def test_clear_and_null_remove_values() -> None:
    wheres: list[Any] = [pa.array([True, None]), [0], None]
    for where in wheres:

        def call(keys: BatchKeys, table: pa.Table, state: BatchState, where: Any = where) -> None:
            state["s"].update(pa.array([1.0] * len(keys)))
            if table.column("clears")[0].as_py():
                state["s"].clear(where)

        harness = KeyedOperatorHarness(
            Echo(call), "k BIGINT, clears BOOLEAN", key_by="k", output_type="int", parallelism=1
        )
        harness.process([(1, False), (2, False)])
        harness.process([(1, True), (2, True)])
        assert harness.state("s", 1) is None
        assert harness.state("s", 2) == (None if where is None else 1.0)


@pytest.mark.parametrize("make", [pa.table, pa.record_batch])
def test_outputs_are_found_by_name_and_may_be_many(make: Any) -> None:
    def call(keys: BatchKeys, table: pa.Table, state: BatchState) -> Any:
        yield make({"b": pa.array(["x", "y"]).dictionary_encode(), "a": pa.array([1, 2])})
        yield make({"a": pa.nulls(1), "b": pa.array(["z"], pa.large_string())})

    harness = KeyedOperatorHarness(
        Echo(call), "k BIGINT", key_by="k", output_type="a INT, b STRING"
    )
    assert harness.process([(1,)]) == [(1, "x"), (2, "y"), (None, "z")]
    assert harness.process([]) == []


def test_the_driver_learns_the_states_from_a_copy() -> None:
    function = RunningTotals()
    descriptors = declared_states(KeyedBatchProcess(function))
    assert [(each.name, each.queryable_name) for each in descriptors] == [
        ("totals", "totals"),
        ("last", None),
    ]
    assert not hasattr(function, "last")
