"""Misuse of operator state is refused with what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.operator_state.test_checkpoint_hooks import Counting, harness_of

from queryable_state.streaming import KeyedProcessFunction, ListStateDescriptor, Types
from queryable_state.streaming.runtime.operators.operators import KeyedProcess
from queryable_state.wire.errors import (
    InvalidRequestError,
    JobError,
    LimitExceededError,
    SerializationError,
)

if TYPE_CHECKING:
    from queryable_state.streaming import (
        FunctionInitializationContext,
        FunctionSnapshotContext,
        RuntimeContext,
    )


def test_misuse_is_refused_with_what_to_do() -> None:
    class Late(Counting):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.store.get_list_state(ListStateDescriptor("late", Types.LONG()))

        def initialize_state(self, context: FunctionInitializationContext) -> None:
            self.store = context.get_operator_state_store()

    with pytest.raises(JobError, match="'late' is requested outside initialize_state"):
        harness_of(Late()).process([])

    class Wrong(Counting):
        def snapshot_state(self, context: FunctionSnapshotContext) -> None:
            self.counts.add(self.written)  # type: ignore[attr-defined]

    for written, error, text in (
        (None, SerializationError, "add was called with None"),
        ("text", SerializationError, "cannot be written as bigint"),
    ):
        with pytest.raises(error, match=text):
            harness_of(type("Writing", (Wrong,), {"written": written})()).process([])

    class Twice(Counting):
        def initialize_state(self, context: FunctionInitializationContext) -> None:
            store = context.get_operator_state_store()
            store.get_list_state(ListStateDescriptor("counted", Types.LONG()))
            store.get_union_list_state(ListStateDescriptor("counted", Types.LONG()))

    with pytest.raises(JobError, match="two different descriptors"):
        harness_of(Twice()).process([])


def test_a_hook_without_its_interface_is_refused() -> None:
    alone = type(
        "Alone",
        (KeyedProcessFunction,),
        {"process_element": lambda *_: None, "snapshot_state": lambda *_: None},
    )
    with pytest.raises(
        InvalidRequestError,
        match=r"snapshot_state would .* make Alone a CheckpointedFunction or ListCheckpointed",
    ):
        KeyedProcess(alone())


def test_an_element_above_the_limit_is_refused() -> None:
    class Big(Counting):
        descriptor = ListStateDescriptor("big", Types.STRING())

        def snapshot_state(self, context: FunctionSnapshotContext) -> None:
            self.counts.update(["x" * 5_000_000])  # type: ignore[list-item]

    with pytest.raises(LimitExceededError, match="value_bytes is 4194304"):
        harness_of(Big()).process([])


def test_a_state_above_the_limit_of_a_subtask_is_refused() -> None:
    class Many(Counting):
        descriptor = ListStateDescriptor("many", Types.STRING())

        def snapshot_state(self, context: FunctionSnapshotContext) -> None:
            self.counts.update(["x" * 1_000_000] * 40)  # type: ignore[list-item]

    with pytest.raises(LimitExceededError, match="33554432 are allowed"):
        harness_of(Many()).process([])
