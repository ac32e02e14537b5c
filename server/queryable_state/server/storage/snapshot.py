"""One version of a store, held still while it is written down."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

    from queryable_state.internal.v1.checkpoint_pb2 import SnapshotFormat


class LocalFile(NamedTuple):
    """A file of a native cut."""

    name: str
    path: Path
    shared: bool
    """Whether it never changes and later cuts may hold it again: an `.sst` file."""


class StateRecords(NamedTuple):
    """How large one state is; both approximate."""

    state_id: int
    records: int
    size_bytes: int


class RecordWriter(Protocol):
    """What a cut writes itself to: a `CanonicalWriter`."""

    def add(self, state_id: int, records: Iterable[tuple[bytes, bytes]]) -> object:
        """All records of one state, in key order. States come in the order of their ids."""


class StoreSnapshot(ABC):
    """The whole of one committed version, whatever is sealed, committed and folded after.

    Made on the bulk thread; everything else may be called on any one thread beside
    it. Ordered reading takes a few hundred records at a time and lets fetches and
    folds of the store in between. Closing the store closes its cuts: what reads
    one then raises `RetryLaterError`. A native cut outlives its store.
    """

    version: int
    """The batch it is the state of."""

    format: SnapshotFormat.ValueType
    """ROCKSDB where `files` are the state, CANONICAL where it is to be written."""

    @abstractmethod
    def state_ids(self) -> list[int]:
        """The keyed states in it, in order, empty ones too."""

    @abstractmethod
    def records(self, state_id: int) -> Iterator[tuple[bytes, bytes]]:
        """The records of a state, in key order."""

    @abstractmethod
    def files(self) -> list[LocalFile]:
        """The files of a native cut, by name; none for a canonical one."""

    @abstractmethod
    def operator_states(self) -> Mapping[int, tuple[bytes, ...]]:
        """The elements of each operator state that was ever set, by state id."""

    @abstractmethod
    def sizes(self) -> list[StateRecords]:
        """How large each state is."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the version. Files stay where they are, the caller's. Idempotent."""

    def write_canonical(self, writer: RecordWriter) -> None:
        """Write every state that has records to `writer`."""
        for state_id in self.state_ids():
            writer.add(state_id, self.records(state_id))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
