"""Snapshot that reads a pinned view; every backend supports it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.internal.v1.checkpoint_pb2 import SnapshotFormat
from queryable_state.server.storage.snapshot import LocalFile, StateRecords, StoreSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from queryable_state.server.storage.layered.stack_view import StackView


class CanonicalSnapshot(StoreSnapshot):
    """A snapshot without copies: the open view keeps the records that compaction replaces."""

    format = SnapshotFormat.CANONICAL

    def __init__(self, view: StackView, sizes: Sequence[StateRecords]) -> None:
        self.version = view.version
        self._view = view
        self._sizes = sizes
        self._operator_states = view.operator_states()

    def state_ids(self) -> list[int]:
        return [size.state_id for size in self._sizes]

    def records(self, state_id: int) -> Iterator[tuple[bytes, bytes]]:
        return self._view.scan(state_id, b"", None)

    def files(self) -> list[LocalFile]:
        return []

    def operator_states(self) -> Mapping[int, tuple[bytes, ...]]:
        return self._operator_states

    def sizes(self) -> list[StateRecords]:
        return list(self._sizes)

    def close(self) -> None:
        self._view.close()
