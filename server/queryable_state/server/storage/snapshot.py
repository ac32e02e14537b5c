"""Snapshot of a store: one committed version, unchanged while it is written to a checkpoint."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, NamedTuple, Protocol

from queryable_state.server.storage.closing import Closing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from queryable_state.internal.v1.checkpoint_pb2 import SnapshotFormat


class LocalFile(NamedTuple):
    """A file of a native snapshot."""

    name: str
    path: Path
    shared: bool
    """True for an `.sst` file: it never changes, and later snapshots may contain it too."""


class StateRecords(NamedTuple):
    """Approximate size of one state."""

    state_id: int
    records: int
    size_bytes: int


class RecordWriter(Protocol):
    """Destination of a canonical snapshot: a `CanonicalWriter`."""

    def add(self, state_id: int, records: Iterable[tuple[bytes, bytes]]) -> object:
        """Writes all records of one state, in key order; called in ascending order of ids."""


class StoreSnapshot(Closing):
    """All state of one committed version; later seals, commits and compactions do not change it.

    The background thread makes it; any one other thread may use it. An ordered read takes a
    few hundred records at a time, so that fetches and compactions of the store run in
    between. Closing the store closes its canonical snapshots, and reading one then raises
    `RetryLaterError`. A native snapshot outlives its store.
    """

    version: int
    """The committed batch."""

    format: SnapshotFormat.ValueType
    """ROCKSDB: `files` are the state. CANONICAL: `write_canonical` writes the state."""

    @abstractmethod
    def state_ids(self) -> list[int]:
        """The ids of its keyed states, ascending, empty states too."""

    @abstractmethod
    def records(self, state_id: int) -> Iterator[tuple[bytes, bytes]]:
        """The records of a state, in key order."""

    @abstractmethod
    def files(self) -> list[LocalFile]:
        """The files of a native snapshot, by name; none for a canonical one."""

    @abstractmethod
    def operator_states(self) -> Mapping[int, tuple[bytes, ...]]:
        """The elements of each operator state that was ever set, by state id."""

    @abstractmethod
    def sizes(self) -> list[StateRecords]:
        """The approximate size of each state."""

    @abstractmethod
    def close(self) -> None:
        """Releases the version. Its files stay and belong to the caller. Idempotent."""

    def write_canonical(self, writer: RecordWriter) -> None:
        """Writes every keyed state to `writer`."""
        for state_id in self.state_ids():
            writer.add(state_id, self.records(state_id))
