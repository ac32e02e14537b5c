"""One state partition of an operator on this server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.server.native_state.store.native_store import NativeStore
from queryable_state.wire.errors import RetryLaterError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from queryable_state.server.native_state.server.query_states import OperatorStates
    from queryable_state.server.native_state.store.partition_files import PartitionFiles
    from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask
    from queryable_state.server.storage.overlay import Overlay
    from queryable_state.server.storage.store import StateStore


@dataclass(eq=False)
class ServedPartition:
    """A partition that this server has; its store, once it is loaded."""

    operator: OperatorStates
    index: int
    files: PartitionFiles
    subtask: OwnedSubtask | None = None
    """None: it is not loaded."""

    loading: asyncio.Task[None] | None = None
    """The load that runs."""

    @property
    def store(self) -> NativeStore:
        """Its store; raises `RetryLaterError` if it is not loaded."""
        store = None if self.subtask is None else self.subtask.store
        if not isinstance(store, NativeStore):
            raise RetryLaterError(f"partition {self.index} of {self.operator.uid} is not loaded")
        return store

    def changes(self, batch: int, ids: Sequence[str | None]) -> Overlay | StateStore:
        """The raw changes of the batch behind the committed one, or a store of it as a whole.

        Blocking. Raises as `StoreFiles.delta`.
        """
        raw = self.store.raw
        overlay = self.files.step(batch, ids, lambda source, key: raw.reader(source)(key))
        return self.files.open(batch, ids) if overlay is None else overlay
