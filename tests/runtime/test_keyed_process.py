"""A keyed process function over batches: state, chunks, keys, runs and re-runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.streaming.descriptors import ValueStateDescriptor
from queryable_state.streaming.functions import KeyedProcessFunction
from queryable_state.streaming.testing import InMemoryStateBackend, KeyedOperatorHarness
from queryable_state.v1.query_pb2 import ReadKind
from queryable_state.wire.errors import Reason, SupersededError
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming.functions import Context, RuntimeContext


class Count(KeyedProcessFunction):
    """Counts the elements of each key; keeps a total of one column that it only writes."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", "bigint"))
        self.last = runtime_context.get_state(ValueStateDescriptor("last", "double"))
        self.unread = runtime_context.get_state(ValueStateDescriptor("unread", "double"))

    def process_element(self, value: Any, ctx: Context) -> Iterator[tuple[Any, int]]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.last.update(value.degrees)
        yield ctx.get_current_key(), count


def counting(**kwargs: Any) -> KeyedOperatorHarness:
    return KeyedOperatorHarness(
        Count(),
        "sensor STRING, degrees DOUBLE",
        key_by="sensor",
        output_type="sensor STRING, readings BIGINT",
        **kwargs,
    )


def memory(harness: KeyedOperatorHarness) -> InMemoryStateBackend:
    assert isinstance(harness.backend, InMemoryStateBackend)
    return harness.backend


def test_state_is_kept_from_batch_to_batch() -> None:
    harness = counting()
    harness.process([("a", 1.0), ("b", 2.0), ("a", 3.0)])

    outputs = harness.process([("a", 4.0)])

    assert outputs == [("a", 3)]
    assert harness.state("count", "a") == 3
    assert harness.state("last", "a") == 4.0
    assert harness.state("count", "b") == 1
    assert harness.state("count", "c") is None


def test_a_retried_attempt_counts_once() -> None:
    """The first attempt dies before its seal, the second one runs to the end."""
    harness = counting(parallelism=1, settings=None)
    rows = [("a", 1.0), ("b", 2.0)]
    harness.process(rows)
    dying = harness.attempt(0, harness.partitions(rows)[0])
    next(dying)
    dying.close()

    assert sorted(harness.process(rows)) == [("a", 2), ("b", 2)]
    assert harness.state("count", "a") == 2
    assert len(memory(harness).seals["operator", 0, 1]) == 1


def test_an_operator_run_twice_in_one_batch_counts_once() -> None:
    harness = counting()
    harness.process([("a", 1.0)])

    first = harness.run([("a", 2.0)])
    second = harness.run([("a", 2.0)])
    harness.commit()

    assert first == second == [("a", 2)]
    assert harness.state("count", "a") == 2


def test_an_older_attempt_that_seals_later_is_told_to_stop() -> None:
    harness = counting(parallelism=1)
    batches = harness.partitions([("a", 1.0)])[0]
    older = harness.attempt(0, batches)
    next(older)
    for _ in harness.attempt(0, batches):
        pass

    with pytest.raises(SupersededError) as refused:
        next(older)

    assert refused.value.reason == Reason.STALE_TOKEN


def test_a_run_of_a_committed_batch_puts_out_the_same_and_changes_nothing() -> None:
    harness = counting()
    harness.process([("a", 1.0)])
    before = harness.process([("a", 2.0)])
    harness.batch_id = 1

    again = harness.run([("a", 2.0)])

    assert again == before
    assert harness.state("count", "a") == 2


def test_a_subtask_without_input_seals_nothing_as_run() -> None:
    harness = counting(parallelism=4)

    harness.process([("a", 1.0)])

    seals = [memory(harness).seals["operator", subtask, 0] for subtask in range(4)]
    assert sorted(seal.row_count for (seal,) in seals) == [0, 0, 0, 1]
    assert all(seal.token.run_epoch == 1 for (seal,) in seals)


def test_the_fingerprint_does_not_depend_on_the_order_of_rows_but_on_the_rows() -> None:
    rows = [("a", 1.0), ("b", 2.0), ("a", 3.0)]
    fingerprints = []
    for batch in (rows, rows[::-1], [*rows[:2], ("a", 4.0)]):
        harness = counting(parallelism=1, chunk_rows=2)
        harness.process(batch)
        fingerprints.append(memory(harness).seals["operator", 0, 0][0].fingerprint)

    assert fingerprints[0] == fingerprints[1] != fingerprints[2]


def test_a_chunk_fetches_each_state_it_reads_once_and_no_other() -> None:
    """The first read fetches the chunk's keys; later chunks fetch ahead what they have not."""
    harness = counting(parallelism=1, chunk_rows=3)
    harness.process([("a", 1.0), ("b", 1.0), ("a", 1.0), ("b", 1.0), ("c", 1.0), ("d", 1.0)])
    fetches = memory(harness).fetches

    count_id = memory(harness).registration("operator", "count").state_id
    assert [len(fetch.keys) for fetch in fetches] == [2, 2]
    assert {fetch.state_id for fetch in fetches} == {count_id}
    assert all(fetch.read == ReadKind.POINT for fetch in fetches)


def test_chunk_boundaries_change_nothing() -> None:
    rows = [(f"s{i % 7}", float(i)) for i in range(100)]
    results = []
    for chunk_rows in (1, 3, 1000):
        harness = counting(chunk_rows=chunk_rows)
        harness.process(rows)
        outputs = harness.process(rows)
        states = [harness.state("count", f"s{i}") for i in range(7)]
        results.append((sorted(outputs), states))

    assert results[0] == results[1] == results[2]


def test_more_keys_than_a_fetch_may_have_are_fetched_in_several() -> None:
    from queryable_state.streaming.runtime.states.settings import RuntimeSettings

    harness = counting(parallelism=1, settings=RuntimeSettings(fetch_keys=10))
    rows = [(f"s{i}", 1.0) for i in range(25)]
    harness.process(rows)
    harness.process(rows)

    assert [len(fetch.keys) for fetch in memory(harness).fetches] == [10, 10, 5] * 2
    assert {harness.state("count", f"s{i}") for i in range(25)} == {2}


def test_outputs_leave_in_batches_of_bounded_size() -> None:
    from queryable_state.streaming.runtime.states.settings import RuntimeSettings

    harness = counting(parallelism=1, settings=RuntimeSettings(output_rows=1000))
    batches = harness.partitions([("a", float(i)) for i in range(2500)])[0]

    sizes = [batch.num_rows for batch in harness.attempt(0, batches)]

    assert sum(sizes) == 2500
    assert max(sizes) <= 1000


class Keyed(KeyedProcessFunction):
    """Puts out the key it is at, as seen, beside what state says of it."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", "int"))

    def process_element(self, value: Any, ctx: Context) -> list[int]:
        seen = (self.seen.value() or 0) + 1
        self.seen.update(seen)
        assert ctx.get_current_key() == (value.carrier, value["number"])
        return [seen]


def test_composite_keys_are_tuples_and_kept_apart() -> None:
    harness = KeyedOperatorHarness(
        Keyed(),
        "carrier STRING, number INT, note STRING",
        key_by=["carrier", "number"],
        output_type=Types.INT(),
        parallelism=3,
    )
    rows = [("AA", 1, "x"), ("AA", 2, "x"), ("A", 12, "x"), ("AA", 1, "y")]
    harness.process(rows)

    harness.process(rows)

    assert harness.state("seen", ("AA", 1)) == 4
    assert harness.state("seen", ("AA", 2)) == 2
    assert harness.state("seen", ("A", 12)) == 2


@pytest.mark.parametrize(
    ("key_type", "keys"),
    [
        ("double", [0.0, -0.0, float("nan"), float("-nan"), 1.5]),
        ("boolean", [True, False]),
        ("binary", [b"", b"\x00", b"\x00\x01"]),
        ("decimal(10,2)", ["1.00", "2.50"]),
        ("struct<a:int,b:string>", [(1, "x"), (1, "y"), (2, "x")]),
    ],
)
def test_keys_of_every_type_are_one_key_where_they_are_equal(key_type: str, keys: Any) -> None:
    from decimal import Decimal

    class Once(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.count = runtime_context.get_state(ValueStateDescriptor("count", "int"))

        def process_element(self, value: Any, ctx: Context) -> None:
            self.count.update((self.count.value() or 0) + 1)

    if key_type.startswith("decimal"):
        keys = [Decimal(key) for key in keys]
    if key_type.startswith("struct"):
        keys = [{"a": a, "b": b} for a, b in keys]
    harness = KeyedOperatorHarness(
        Once(), Types.ROW_NAMED(["k"], [key_type]), key_by="k", chunk_rows=2
    )
    harness.process([(key,) for key in keys])

    expected = {"double": [2, 2, 2, 2, 1]}.get(key_type, [1] * len(keys))
    assert [harness.state("count", key) for key in keys] == expected


def test_a_bare_stream_has_bare_elements_and_nested_rows_are_rows() -> None:
    class Nested(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Context) -> list[Any]:
            return [(value.place.city, value.place, value.tags, value.counts)]

    harness = KeyedOperatorHarness(
        Nested(),
        "id INT, place STRUCT<city: STRING>, tags ARRAY<STRING>, counts MAP<STRING, INT>",
        key_by="id",
        output_type="city STRING, place STRUCT<city: STRING>, tags ARRAY<STRING>, "
        "counts MAP<STRING, INT>",
    )

    outputs = harness.process([(1, {"city": "Rome"}, ["x"], {"a": 1}), (1, {"city": None}, [], {})])

    assert outputs == [("Rome", ("Rome",), ["x"], {"a": 1}), (None, (None,), [], {})]


def test_the_time_of_the_batch_and_the_watermark_are_what_begin_said() -> None:
    class Times(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Context) -> Iterator[tuple[Any, ...]]:
            clocks = ctx.timer_service()
            yield ctx.timestamp(), clocks.current_processing_time(), clocks.current_watermark()

    harness = KeyedOperatorHarness(
        Times(), "bigint", key_by="value", output_type="e BIGINT, t BIGINT, w BIGINT"
    )
    memory(harness).timestamp_ms, memory(harness).watermark_ms = 77_000, 66_000

    assert harness.process([1]) == [(None, 77_000, 66_000)]


def test_a_cleared_value_is_gone() -> None:
    class Toggle(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.on = runtime_context.get_state(ValueStateDescriptor("on", "boolean"))

        def process_element(self, value: Any, ctx: Context) -> None:
            if self.on.value():
                self.on.clear()
            else:
                self.on.update(True)

    harness = KeyedOperatorHarness(Toggle(), "bigint", key_by="value")
    harness.process([1])
    assert harness.state("on", 1) is True
    harness.process([1])
    assert harness.state("on", 1) is None
    harness.process([1, 1, 1])
    assert harness.state("on", 1) is True
