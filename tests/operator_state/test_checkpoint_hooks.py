"""When each hook of a function with operator state runs, and what it sees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queryable_state.streaming import (
    CheckpointedFunction,
    CheckpointListener,
    KeyedProcessFunction,
    ListCheckpointed,
    ListStateDescriptor,
    MapStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from queryable_state.streaming.functions import UserFunctionError
from queryable_state.streaming.runtime.operators.declared_states import declared_states
from queryable_state.streaming.runtime.operators.operators import (
    KeyedProcess,
)
from queryable_state.streaming.testing import KeyedOperatorHarness
from queryable_state.v1.registration_pb2 import StateKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming import (
        FunctionInitializationContext,
        FunctionSnapshotContext,
        ListState,
        RuntimeContext,
    )

CALLS: list[str] = []


@pytest.fixture(autouse=True)
def calls() -> None:
    CALLS.clear()


class Counting(KeyedProcessFunction, CheckpointedFunction, CheckpointListener):
    """Counts its elements per subtask in operator state, per key in keyed state."""

    descriptor: ClassVar = ListStateDescriptor("counted", Types.LONG())
    fails_in: ClassVar[str] = ""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        CALLS.append(f"initialize {context.is_restored()} {context.get_restored_checkpoint_id()}")
        self.counts: ListState[int] = context.get_operator_state_store().get_list_state(
            self.descriptor
        )
        self.total = sum(self.counts.get())
        self.keyed = context.get_keyed_state_store().get_state(
            ValueStateDescriptor("of_key", Types.LONG())
        )

    def open(self, runtime_context: RuntimeContext) -> None:
        CALLS.append(f"open {self.total}")

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.total += 1
        self.keyed.update((self.keyed.value() or 0) + 1)
        if self.fails_in == "process":
            raise ValueError("told to fail")
        yield (self.total, self.keyed.value())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        stamp = (context.get_checkpoint_id(), context.get_checkpoint_timestamp())
        CALLS.append(f"snapshot {stamp} {self.total}")
        if self.fails_in == "snapshot_state":
            raise ValueError("told to fail")
        self.counts.update([self.total])

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        CALLS.append(f"complete {checkpoint_id}")

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        CALLS.append(f"aborted {checkpoint_id}")

    def close(self) -> None:
        CALLS.append("close")


def harness_of(function: Any, **options: Any) -> KeyedOperatorHarness:
    every: dict[str, Any] = {"parallelism": 1, "output_type": "total BIGINT, of_key BIGINT"}
    return KeyedOperatorHarness(function, "k STRING", key_by="k", **every | options)


def test_the_hooks_run_in_order_in_each_batch() -> None:
    harness = harness_of(Counting())
    assert harness.process([("a",), ("a",), ("b",)]) == [(1, 1), (2, 2), (3, 1)]
    # The function reads a state before it has declared all, so a copy tells which there are.
    copied = ["initialize False None", "open 0", "close"]
    own = ["open 0", "snapshot (0, 1000) 3", "close"]
    assert ["initialize False None", *copied, *own] == CALLS
    CALLS.clear()
    assert harness.process([("a",)]) == [(4, 3)]
    assert CALLS == [
        "initialize True 0",
        "open 3",
        "complete 0",
        "snapshot (1, 1000) 4",
        "close",
    ]
    assert harness.operator_state("counted", 0) == [4]
    assert harness.state("of_key", "a") == 3


def test_a_subtask_without_elements_takes_its_snapshot_too() -> None:
    harness = harness_of(Counting(), parallelism=2)
    harness.process([])
    assert [call for call in CALLS if "snapshot" in call] == ["snapshot (0, 1000) 0"] * 2
    assert [harness.operator_state("counted", subtask) for subtask in (0, 1)] == [[0], [0]]


def test_a_batch_that_runs_again_starts_from_the_batch_before() -> None:
    """The second attempt is told that the snapshot of the first does not count."""
    harness = harness_of(Counting())
    harness.process([("a",)])
    harness.run([("a",), ("b",)])
    CALLS.clear()
    assert harness.run([("a",)]) == [(2, 2)]
    assert CALLS == [
        "initialize True 0",
        "open 1",
        "aborted 1",
        "complete 0",
        "snapshot (1, 1000) 2",
        "close",
    ]
    harness.commit()
    assert harness.operator_state("counted", 0) == [2]


@pytest.mark.parametrize("hook", ["process", "snapshot_state"])
def test_a_failed_attempt_leaves_no_trace(hook: str) -> None:
    harness = harness_of(Counting())
    harness.process([("a",)])
    failing = harness_of(type("Failing", (Counting,), {"fails_in": hook})(), owner=harness.backend)
    failing.batch_id = 1
    with pytest.raises(UserFunctionError, match="told to fail"):
        failing.run([("a",)])
    assert CALLS[-1] == "close"
    CALLS.clear()
    assert harness.process([("a",)]) == [(2, 2)]
    assert "aborted 1" not in CALLS


def test_an_error_names_the_hook_and_the_function_is_closed() -> None:
    class Failing(Counting):
        def initialize_state(self, context: FunctionInitializationContext) -> None:
            raise ValueError("no file")

    with pytest.raises(UserFunctionError, match=r"batch 0: initialize_state failed in Failing: "):
        harness_of(Failing()).process([])
    assert CALLS == ["close"]


class Listing(KeyedProcessFunction, ListCheckpointed):
    """Keeps its elements in the list that Flink's deprecated interface returns."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def restore_state(self, state: list[Any]) -> None:
        CALLS.append(f"restore {state}")
        self.seen = state

    def process_element(self, value: Any, ctx: Any) -> None:
        self.seen.append(tuple(value))

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any] | None:
        CALLS.append(f"snapshot {checkpoint_id} {timestamp}")
        return self.seen or None


def test_a_list_checkpointed_function_gets_its_list_back() -> None:
    harness = harness_of(Listing())
    for rows in ([], [("a",)], [("b",)]):
        harness.process(rows)
    assert CALLS == [
        "snapshot 0 1000",
        "restore []",
        "snapshot 1 1000",
        "restore [('a',)]",
        "snapshot 2 1000",
    ]
    assert harness.operator_state("_default_", 0) == [("a",), ("b",)]


class Stores(KeyedProcessFunction, CheckpointedFunction):
    """Writes each kind of operator state."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.union = store.get_union_list_state(ListStateDescriptor("union", Types.STRING()))
        self.union.add("first")
        self.rules = store.get_broadcast_state(
            MapStateDescriptor("rules", Types.STRING(), Types.LIST(Types.LONG()))
        )
        assert store.get_registered_state_names() == {"union"}
        assert store.get_registered_broadcast_state_names() == {"rules"}

    def process_element(self, value: Any, ctx: Any) -> None:
        self.union.add_all([value[0], value[0]])
        self.rules[value[0]] = [1]
        self.rules.get(value[0]).append(2)  # type: ignore[union-attr]  # a copy

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        if "gone" in self.rules:
            del self.rules["gone"]
        self.rules.put("none", None)


def test_every_kind_of_operator_state_is_stored_and_read_back() -> None:
    harness = harness_of(Stores())
    harness.process([("a",), ("gone",)])
    harness.process([("b",)])
    union = harness.operator_state("union", 0)
    assert union == ["first", "a", "a", "gone", "gone", "first", "b", "b"]
    assert harness.operator_state("rules", 0) == {"a": [1], "b": [1], "none": None}


def test_unchanged_operator_state_is_not_written() -> None:
    class Still(Counting):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            return iter(())

    harness = harness_of(Still())
    harness.process([("a",)])
    harness.process([("a",)])
    seals = harness.backend.seals  # type: ignore[attr-defined]
    assert [seal.record_count for seals in seals.values() for seal in seals] == [1, 0]


def test_the_driver_learns_the_operator_states_with_their_kinds() -> None:
    states = {state.name: state.kind for state in declared_states(KeyedProcess(Stores()))}
    assert states == {"union": StateKind.OPERATOR_UNION, "rules": StateKind.BROADCAST}


@settings(max_examples=40)
@given(st.lists(st.lists(st.sampled_from("abc"), max_size=5), max_size=6), st.integers(1, 3))
def test_any_split_into_batches_counts_the_same(batches: list[list[str]], repeats: int) -> None:
    """Every batch runs several times, and only the last attempt counts."""
    harness = harness_of(Counting(), parallelism=2)
    for rows in batches:
        for _ in range(repeats):
            harness.run([(row,) for row in rows])
        harness.commit()
    if batches:
        counted = [sum(harness.operator_state("counted", subtask)) for subtask in (0, 1)]
        assert sum(counted) == sum(map(len, batches))
