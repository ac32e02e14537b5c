"""Hooks of a function with operator state in one task, in the order of `CheckpointedFunction`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from queryable_state.streaming.descriptors import ListStateDescriptor
from queryable_state.streaming.functions import UserFunctionError
from queryable_state.streaming.hooks import user_function
from queryable_state.streaming.operator_state.checkpointed import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedStateStore,
    ListCheckpointed,
)
from queryable_state.streaming.operator_state.descriptors import DEFAULT_STATE_NAME
from queryable_state.streaming.runtime.operator_states.operator_state import OperatorStateContext
from queryable_state.streaming.runtime.operator_states.operator_state_store import (
    TaskOperatorStateStore,
)
from queryable_state.streaming.runtime.user_code import at_place, described
from queryable_state.v1.registration_pb2 import SchemaVersion, StateRegistration
from queryable_state.wire.errors import InvalidRequestError, QueryableStateError, Reason
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming.descriptors import (
        MapStateDescriptor,
        StateDescriptor,
        ValueStateDescriptor,
    )
    from queryable_state.streaming.functions import (
        AggregatingStateDescriptor,
        ReducingStateDescriptor,
        RuntimeContext,
    )
    from queryable_state.streaming.runtime.states.task_states import TaskStates


class CheckpointHooks:
    """Calls the hooks of one function in one task; a function without hooks is left alone.

    Call order: `initialize`, then the function's `open`, then `notify` after the last begin of the
    task, then the elements, then `snapshot`, then the task's changes.
    """

    def __init__(
        self,
        function: object,
        store: TaskOperatorStateStore,
        keyed: RuntimeContext | None,
        *,
        batch_id: int,
        where: str,
    ) -> None:
        """`keyed` declares the operator's keyed states; None: it has no keys."""
        self.store = store
        """The operator states that the function requests."""
        self._function = user_function(function)
        self._keyed = keyed
        self._batch_id = batch_id
        self._where = where

    @property
    def has_operator_state(self) -> bool:
        """True if the function may request operator states and read them at once."""
        return isinstance(self._function, CheckpointedFunction | ListCheckpointed)

    def initialize(self) -> None:
        """Calls `initialize_state` or `restore_state`; then no operator state may be requested."""
        function, store = self._function, self.store
        restored = self._batch_id - 1 if self._batch_id else None
        if isinstance(function, CheckpointedFunction):
            context = _InitializationContext(restored, store, self._keyed)
            with self._calling("initialize_state"):
                function.initialize_state(context)
        elif isinstance(function, ListCheckpointed):
            state = store.get_list_state(_default_descriptor())
            if restored is not None:
                elements = state.get()
                with self._calling("restore_state"):
                    function.restore_state(elements)
        store.end_declarations()

    def notify(self, owned: TaskStates) -> None:
        """Notifies a listener of the batch before, and of an earlier attempt at this batch."""
        function = self._function
        if not isinstance(function, CheckpointListener):
            return
        if owned.sealed_before:
            with self._calling("notify_checkpoint_aborted"):
                function.notify_checkpoint_aborted(self._batch_id)
        if self._batch_id:
            with self._calling("notify_checkpoint_complete"):
                function.notify_checkpoint_complete(self._batch_id - 1)

    def snapshot(self, batch_timestamp_ms: int) -> None:
        """Calls `snapshot_state`; the states then hold what the batch stores."""
        function = self._function
        if isinstance(function, CheckpointedFunction):
            with self._calling("snapshot_state"):
                function.snapshot_state(_SnapshotContext(self._batch_id, batch_timestamp_ms))
        elif isinstance(function, ListCheckpointed):
            with self._calling("snapshot_state"):
                elements = function.snapshot_state(self._batch_id, batch_timestamp_ms)
                self.store.get_list_state(_default_descriptor()).update(elements or ())

    @contextmanager
    def _calling(self, hook: str) -> Iterator[None]:
        """Turns an exception of a hook into an error that names it."""
        try:
            yield
        except QueryableStateError as error:
            error.add_note(
                f"{self._where}, in {hook} of {type(self._function).__name__}{at_place(error)}"
            )
            raise
        except Exception as error:
            raise UserFunctionError(
                f"{self._where}: {hook} failed in {type(self._function).__name__}: "
                f"{described(error)}"
            ) from error


def declared_operator_states(
    function: object, keyed: RuntimeContext | None, where: str
) -> list[StateDescriptor]:
    """Descriptors of the operator states that a function requests in a job's first batch.

    Calls `initialize_state` with empty states. Its keyed states are declared in `keyed`.
    """

    def bind_empty() -> None:
        for state in store.states.values():
            if not state.is_bound:
                descriptor = state.descriptor
                assert descriptor.value_type is not None
                version = SchemaVersion(version=1, type=descriptor.value_type.to_proto())
                state.bind(StateRegistration(value_types=[version]), nothing)

    nothing = OperatorStateContext(where=where, value_bytes=0, elements=lambda _: [])
    store = TaskOperatorStateStore(where, bind_empty)
    CheckpointHooks(function, store, keyed, batch_id=0, where=where).initialize()
    return [state.descriptor for state in store.states.values()]


def _default_descriptor() -> ListStateDescriptor:
    return ListStateDescriptor(DEFAULT_STATE_NAME, Types.PICKLED_BYTE_ARRAY())


class _InitializationContext(FunctionInitializationContext):
    def __init__(
        self, restored: int | None, store: TaskOperatorStateStore, keyed: RuntimeContext | None
    ) -> None:
        self._restored = restored
        self._store = store
        self._keyed = keyed

    def is_restored(self) -> bool:
        return self._restored is not None

    def get_restored_checkpoint_id(self) -> int | None:
        return self._restored

    def get_operator_state_store(self) -> TaskOperatorStateStore:
        return self._store

    def get_keyed_state_store(self) -> KeyedStateStore:
        if self._keyed is None:
            raise InvalidRequestError(
                "get_keyed_state_store(): the operator has no keys: call key_by before it, or keep "
                "the state in get_operator_state_store()",
                reason=Reason.UNSUPPORTED,
            )
        return _KeyedStates(self._keyed)


class _KeyedStates(KeyedStateStore):
    def __init__(self, context: RuntimeContext) -> None:
        self._context = context

    def get_state(self, state_descriptor: ValueStateDescriptor) -> Any:
        return self._context.get_state(state_descriptor)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> Any:
        return self._context.get_list_state(state_descriptor)

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> Any:
        return self._context.get_map_state(state_descriptor)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> Any:
        return self._context.get_reducing_state(state_descriptor)

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> Any:
        return self._context.get_aggregating_state(state_descriptor)


class _SnapshotContext(FunctionSnapshotContext):
    def __init__(self, batch_id: int, batch_timestamp_ms: int) -> None:
        self._batch_id = batch_id
        self._batch_timestamp_ms = batch_timestamp_ms

    def get_checkpoint_id(self) -> int:
        return self._batch_id

    def get_checkpoint_timestamp(self) -> int:
        return self._batch_timestamp_ms
