"""Functions with operator state over a stream without keys, and on a keyed stream."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.streaming import (
    CheckpointedFunction,
    CheckpointListener,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    ListCheckpointed,
    ListStateDescriptor,
    MapFunction,
    OutputTag,
    ProcessFunction,
    Types,
    ValueStateDescriptor,
)
from queryable_state.streaming.runtime.operators.declared_states import declared_states
from queryable_state.streaming.runtime.operators.operators import KeyedProcess, UnkeyedStep
from queryable_state.streaming.streams.keyed_functions import KeyedStep
from queryable_state.streaming.streams.steps import step_of
from queryable_state.streaming.testing import KeyedOperatorHarness, UnkeyedOperatorHarness
from queryable_state.v1.registration_pb2 import StateKind
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming import (
        FunctionInitializationContext,
        FunctionSnapshotContext,
        RuntimeContext,
    )

READING = "sensor STRING, degrees DOUBLE"
LATE = OutputTag("late", Types.STRING())


class Counting(FlatMapFunction, ListCheckpointed):
    """Emits (subtask, count of the subtask) for each element."""

    count = 0

    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def flat_map(self, value: Any) -> Iterator[tuple[int, int]]:
        self.count += 1
        yield self.subtask, self.count

    def restore_state(self, state: list[int]) -> None:
        self.count = sum(state)

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[int]:
        return [self.count]


class FirstOfSubtask(FilterFunction, CheckpointedFunction):
    """Keeps the first element of each subtask."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        descriptor = ListStateDescriptor("seen", Types.LONG())
        self.seen = context.get_operator_state_store().get_list_state(descriptor)

    def filter(self, value: Any) -> bool:
        is_first = not self.seen.get()
        self.seen.update([1])
        return is_first

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        pass


class Completed(MapFunction, CheckpointListener):
    """Maps each element to the newest completed checkpoint."""

    completed = -1

    def map(self, value: Any) -> int:
        return self.completed

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.completed = checkpoint_id


class Divided(ProcessFunction, Counting):
    """Emits every second element of a subtask to a side output."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.count += 1
        assert ctx.timestamp() is None
        if self.count % 2:
            yield self.subtask, self.count
        else:
            yield LATE, value.sensor


class OfBoth(FlatMapFunction, CheckpointedFunction):
    """Emits (sensor, count of the sensor, count of the subtask)."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        descriptor = ValueStateDescriptor("of_sensor", Types.LONG())
        self.of_sensor = context.get_keyed_state_store().get_state(descriptor)
        counts = ListStateDescriptor("of_subtask", Types.LONG())
        self.of_subtask = context.get_operator_state_store().get_list_state(counts)
        self.count = sum(self.of_subtask.get())

    def flat_map(self, value: Any) -> Iterator[tuple[str, int, int]]:
        self.count += 1
        of_sensor = (self.of_sensor.value() or 0) + 1
        self.of_sensor.update(of_sensor)
        yield value.sensor, of_sensor, self.count

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.of_subtask.update([self.count])


def rows(*sensors: str) -> list[tuple[str, float]]:
    return [(sensor, 1.0) for sensor in sensors]


def test_a_list_checkpointed_flat_map_counts_on_over_batches_in_each_subtask() -> None:
    harness = UnkeyedOperatorHarness(Counting(), READING, output_type="tuple<int,bigint>")
    first = harness.process(rows("a", "b", "c", "d", "e"))
    replayed = harness.run(rows("f", "g"))
    assert harness.run(rows("f", "g")) == replayed
    harness.commit()
    for subtask in range(2):
        counts = [count for at, count in first + replayed if at == subtask]
        assert counts == [*range(1, len(counts) + 1)]
        assert harness.operator_state("_default_", subtask) == [len(counts)]


def test_a_filter_keeps_operator_state_without_keys() -> None:
    harness = UnkeyedOperatorHarness(FirstOfSubtask(), READING, parallelism=1)
    assert [row.sensor for row in harness.process(rows("a", "b"))] == ["a"]
    assert harness.process(rows("c")) == []


def test_a_listener_without_keys_is_notified_of_the_batch_before() -> None:
    harness = UnkeyedOperatorHarness(Completed(), READING, parallelism=1)
    assert [harness.process(rows("a")) for _ in range(3)] == [[-1], [0], [1]]


def test_a_process_function_with_operator_state_emits_outputs_of_its_own_tags() -> None:
    harness = UnkeyedOperatorHarness(
        Divided(), READING, output_type="tuple<int,bigint>", parallelism=1, side_outputs=[LATE]
    )
    assert harness.process(rows("a", "b", "c")) == [(0, 1), (0, 3)]
    assert harness.side_output(LATE) == ["b"]
    assert harness.operator_state("_default_", 0) == [3]


def test_a_flat_map_of_a_keyed_stream_has_keyed_and_operator_state() -> None:
    operator = KeyedProcess(KeyedStep(step_of(OfBoth(), FlatMapFunction)))
    counts = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
    harness = KeyedOperatorHarness(
        operator, READING, key_by="sensor", output_type=counts, parallelism=1
    )
    assert harness.process(rows("a", "b", "a")) == [("a", 1, 1), ("b", 1, 2), ("a", 2, 3)]
    assert harness.process(rows("b")) == [("b", 2, 4)]
    assert harness.state("of_sensor", "a") == 2
    assert {each.name for each in declared_states(operator)} == {"of_sensor", "of_subtask"}


def test_operator_state_without_keys_is_dealt_out_over_a_rescale() -> None:
    harness = UnkeyedOperatorHarness(Counting(), READING, output_type="tuple<int,bigint>")
    harness.process(rows(*"abcdef"))
    harness.rescale(1)
    assert harness.process(rows("g")) == [(0, 7)]
    copy = UnkeyedOperatorHarness(
        Counting(), READING, output_type="tuple<int,bigint>", parallelism=1
    )
    copy.restore(harness.snapshot())
    assert copy.process(rows("h")) == [(0, 8)]


def test_a_function_with_operator_state_sees_the_timestamps_of_its_elements() -> None:
    class Latest(ProcessFunction, ListCheckpointed):
        latest: int | None = None

        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> None:
            self.latest = ctx.timestamp()

        def restore_state(self, state: list[int]) -> None:
            pass

        def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
            return [self.latest]

    harness = UnkeyedOperatorHarness(
        Latest(), "at TIMESTAMP", event_time="at", output_type="INT", parallelism=1
    )
    harness.process([(datetime.fromtimestamp(7, UTC),)])
    assert harness.operator_state("_default_", 0) == [7000]


def test_the_harness_names_the_one_for_functions_without_state() -> None:
    class Stateless(MapFunction):
        def map(self, value: Any) -> int:
            return 1

    function: Any = Stateless()
    with pytest.raises(InvalidRequestError, match="Test it with ChainHarness"):
        UnkeyedOperatorHarness(function, READING)
    function = len
    with pytest.raises(InvalidRequestError, match=r"is no MapFunction, .* or ProcessFunction"):
        UnkeyedOperatorHarness(function, READING)


def test_the_driver_learns_the_operator_state_of_a_function_without_keys() -> None:
    found = declared_states(UnkeyedStep(step_of(Counting(), FlatMapFunction)))
    assert [(each.name, each.kind) for each in found] == [("_default_", StateKind.OPERATOR_LIST)]


def test_keyed_state_of_a_function_without_keys_is_refused_with_the_way_out() -> None:
    class Wrong(Counting):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("last", Types.DOUBLE()))

    with pytest.raises(InvalidRequestError, match=r"key_by\(\.\.\.\)"):
        declared_states(UnkeyedStep(step_of(Wrong(), FlatMapFunction)))
    with pytest.raises(InvalidRequestError, match=r"get_keyed_state_store.*key_by"):
        declared_states(UnkeyedStep(step_of(OfBoth(), FlatMapFunction)))


def test_hooks_of_functions_that_no_operator_runs_are_refused() -> None:
    class Key(KeySelector, CheckpointListener):
        def get_key(self, value: Any) -> Any:
            return value

        def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
            pass

    class Both(CoMapFunction, ListCheckpointed):
        def map1(self, value: Any) -> Any:
            return value

        map2 = map1

        def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[int]:
            return []

        def restore_state(self, state: list[int]) -> None:
            pass

    class Unmarked(MapFunction):
        def map(self, value: Any) -> Any:
            return value

        def snapshot_state(self) -> None:
            pass

    for function, cls in ((Key(), KeySelector), (Both(), CoMapFunction), (Unmarked(), MapFunction)):
        with pytest.raises(InvalidRequestError, match="would never be called"):
            step_of(function, cls)
