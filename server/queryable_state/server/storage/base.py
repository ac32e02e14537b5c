"""Interface of a backend: the compacted records beneath all overlays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from queryable_state.server.storage.snapshot import StateRecords

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from queryable_state.server.storage.bulk_load import BulkLoad
    from queryable_state.server.storage.overlay import StateOverlay
    from queryable_state.server.storage.record_source import RecordSource
    from queryable_state.server.storage.snapshot import StoreSnapshot
    from queryable_state.wire.errors import QueryableStateError


class BaseImage(ABC):
    """The states that one compaction changes, as they were before it.

    It is released when nothing refers to it.
    """

    @abstractmethod
    def of(self, state_id: int) -> StateOverlay | RecordSource | None:
        """The old state as an overlay over the current base, or as a whole.

        None if the compaction does not change the state.
        """


class StateBase(ABC):
    """The compacted records of one store.

    `apply` runs on the background thread. The event loop may read sources at the same
    time and sees each record as it was before or after the write.
    """

    has_files: ClassVar[bool] = False
    """True if the backend makes native snapshots."""

    @abstractmethod
    def state_ids(self) -> Collection[int]:
        """The states that were there on opening and those added since, without indexes."""

    @abstractmethod
    def add_state(self, state_id: int) -> None:
        """Creates a state that does not exist."""

    @abstractmethod
    def add_time_index(self, state_id: int) -> None:
        """Creates the time-ordered index of a state from its records; idempotent.

        It is the source, and in images the state, of `index_id`. Every later write keeps it equal
        to the records.
        """

    @abstractmethod
    def source(self, state_id: int) -> RecordSource:
        """The current records of a state or an index; raises KeyError if it was never added."""

    @abstractmethod
    def preserve(self, state_ids: Collection[int]) -> BaseImage:
        """Returns an image of these states and their indexes, as before a compaction."""

    @abstractmethod
    def apply(
        self, state_id: int, changes: Mapping[bytes, bytes | None], image: BaseImage | None
    ) -> None:
        """Puts the values and deletes the keys with None; `image` still shows the old state."""

    @abstractmethod
    def flush(self) -> None:
        """Writes memtables to disk. May run at the same time as any call but `close`."""

    def native_snapshot(
        self,
        version: int,
        directory: Path,
        operator_states: Mapping[int, tuple[bytes, ...]],
    ) -> StoreSnapshot:
        """Puts the files of the base into `directory`, which must not exist."""
        raise NotImplementedError

    @abstractmethod
    def bulk_load(self) -> BulkLoad:
        """Starts a bulk load; nothing reads the base until it ends."""

    @abstractmethod
    def approximate_size(self, state_id: int) -> tuple[int, int]:
        """Estimates the number of records of a state and their bytes."""

    def properties(self) -> Mapping[str, int]:
        """Numbers of the backend by name, for metrics; runs on the background thread."""
        return {}

    def write_failure(self) -> QueryableStateError | None:
        """The error after which the backend accepts no more writes; None: it accepts them."""
        return None

    def sizes(self) -> list[StateRecords]:
        """The approximate size of each state, by id."""
        return [
            StateRecords(state_id, *self.approximate_size(state_id))
            for state_id in sorted(self.state_ids())
        ]

    @abstractmethod
    def close(self) -> None:
        """Releases all resources. Called once; no call runs at the same time or follows."""

    @abstractmethod
    def destroy(self) -> None:
        """Removes the files on disk. Called after `close`."""
