"""Interfaces of functions with operator state, and of those that follow checkpoints.

**Each batch is a checkpoint.** Its id is the batch id, and it is complete when Spark has committed
the batch. A Python worker keeps no function between batches, so each task (one attempt at one
subtask in one batch) has a new copy of the function and calls its hooks in this order:

1. `initialize_state`, or `restore_state` if the batch is not the first one. Operator state reads as
   the newest committed batch left it.
2. `open`.
3. `notify_checkpoint_aborted(N)` if an earlier attempt at this batch N took its snapshot, which
   this attempt replaces; `notify_checkpoint_complete(N - 1)` unless the batch is the first one.
4. The elements of the batch.
5. `snapshot_state`, also if the batch has no elements for the subtask.
6. `close`. Then the owner seals keyed and operator state together, and later the batch commits all
   of it or nothing.

Per subtask, the attempt that counts notifies exactly once; failed and repeated attempts notify,
too, so a notification is at least once. If a job stops after batch N, the first task after its
restart notifies of N. A batch in which Spark runs no task of the operator notifies of nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from queryable_state.streaming.descriptors import (
        ListStateDescriptor,
        MapStateDescriptor,
        ValueStateDescriptor,
    )
    from queryable_state.streaming.functions import (
        AggregatingStateDescriptor,
        ReducingStateDescriptor,
    )
    from queryable_state.streaming.operator_state.broadcast_state import BroadcastState
    from queryable_state.streaming.state import (
        AggregatingState,
        ListState,
        MapState,
        ReducingState,
        ValueState,
    )


class OperatorStateStore(ABC):
    """Operator state of one subtask, which belongs to no key.

    States are requested in `initialize_state` and may be used until `snapshot_state` returns. A
    descriptor may be queryable; clients then read the state with `get_operator_state`.
    """

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list of this subtask. At another parallelism the elements of all subtasks are dealt
        out, round-robin."""

    @abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list of this subtask. At another parallelism each subtask gets the elements of all."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """A map that must be equal on all subtasks. At another parallelism each gets a copy."""

    @abstractmethod
    def get_registered_state_names(self) -> set[str]:
        """Names of the requested lists and union lists."""

    @abstractmethod
    def get_registered_broadcast_state_names(self) -> set[str]:
        """Names of the requested broadcast states."""


class KeyedStateStore(ABC):
    """Keyed state of the operator; the same states as those of the runtime context.

    States are requested in `initialize_state` and used only while an element is processed.
    """

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """The value state of this descriptor."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """The list state of this descriptor."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """The map state of this descriptor."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """The reducing state of this descriptor."""

    @abstractmethod
    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState[Any, Any]:
        """The aggregating state of this descriptor."""


class FunctionInitializationContext(ABC):
    """Argument of `initialize_state`."""

    @abstractmethod
    def is_restored(self) -> bool:
        """True unless the batch is the job's first one: then state of an earlier batch, checkpoint
        or savepoint is there. As in Flink also true for an operator that the job has newly got."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """Id of the checkpoint of which the state is: the batch before; None if not restored."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Operator state of the subtask."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Keyed state; raises InvalidRequestError if the operator has no keys."""


class FunctionSnapshotContext(ABC):
    """Argument of `snapshot_state`."""

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """Id of the checkpoint: the batch id."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """Time of the batch in milliseconds since the epoch; a replay has the same."""


class CheckpointedFunction(ABC):
    """A function with operator state; the module docstring has the call order."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Requests the states, and reads what the function needs of them."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Writes the operator state of the batch."""


class ListCheckpointed(ABC):
    """A function whose operator state is one list of picklable elements.

    The list is the operator state `_default_` and is dealt out as a list state is. A
    `CheckpointedFunction` that is also `ListCheckpointed` uses only the former.
    """

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> Iterable[Any] | None:
        """Returns the elements, which replace those of the batch before; None for none."""

    @abstractmethod
    def restore_state(self, state: list[Any]) -> None:
        """Takes the elements of the batch before. Not called in the first batch."""


class CheckpointListener(ABC):
    """A function that follows checkpoints; the module docstring has the guarantees."""

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Batch `checkpoint_id` is committed: its state is never taken back."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:  # noqa: B027 - optional
        """The snapshot that an earlier attempt took in batch `checkpoint_id` does not count."""


HOOKS: Mapping[str, tuple[type, ...]] = {
    "initialize_state": (CheckpointedFunction,),
    "snapshot_state": (CheckpointedFunction, ListCheckpointed),
    "restore_state": (ListCheckpointed,),
    "notify_checkpoint_complete": (CheckpointListener,),
    "notify_checkpoint_aborted": (CheckpointListener,),
}
"""The interfaces through which each hook of an operator's function is called."""
