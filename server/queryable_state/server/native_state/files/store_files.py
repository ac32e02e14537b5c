"""The files of one Spark state store: one operator, partition and store name of a checkpoint.

A store has one version for each batch; version = batch id + 1, and version 0 is empty. A version is
a snapshot, or an older snapshot and the deltas behind it. Blocking; usable from every thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from queryable_state.server.native_state.files.changes import FoldedChanges, fold

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    from queryable_state.server.native_state.files.changes import Changes


class Provider(Enum):
    """The state store providers of Spark."""

    ROCKSDB = "RocksDBStateStoreProvider"
    HDFS_BACKED = "HDFSBackedStateStoreProvider"


class Delta:
    """The changes of one version. Reads its file at each call, or once if it has been read."""

    def __init__(
        self, version: int, path: str, merge_delimiter: bytes, changes: Callable[[], Changes]
    ) -> None:
        self.version = version
        self.path = path
        self._merge_delimiter = merge_delimiter
        self._changes = changes

    def changes(self) -> Changes:
        """Yields the changes in their order.

        Raises FileRemovedError at the call, CorruptDataError at the call or at the damaged
        record: drop what was yielded before.
        """
        return self._changes()

    def folded(self) -> FoldedChanges:
        """The effect of all changes, one entry a key; raises as `changes`."""
        return fold(self.changes(), self._merge_delimiter)


class StoreSnapshot(ABC):
    """All records of one version."""

    version: int
    path: str

    @property
    @abstractmethod
    def column_families(self) -> Mapping[str, int]:
        """Ids of column families by name; empty if keys have no column family prefix."""


class RocksDbFiles(StoreSnapshot):
    """A snapshot as the files of a RocksDB."""

    @abstractmethod
    def place(self, directory: Path, downloads: Path | None = None) -> None:
        """Makes `directory` and fills it with a RocksDB that rocksdict opens.

        `downloads` is a folder of the store on the same disk. It keeps the data files of the
        snapshot placed last, so that the next one downloads only those that are new; a checkpoint
        on a local disk needs none.

        The RocksDB may be opened read-write: its data files are hard links if the checkpoint is
        on the same disk, and RocksDB only removes links. Open it with the options of the
        directory (`Options.load_latest`), which hold the merge operator. Raises FileRemovedError
        if the job removed a file meanwhile, CorruptDataError if a file is damaged; the directory
        is removed then.
        """


class RecordFile(StoreSnapshot):
    """A snapshot as one file of records."""

    @abstractmethod
    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """Yields key and value of each record, in no order, each key once. Raises as
        `Delta.changes`."""


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The files that make a version: a snapshot, and the deltas to apply to it in this order."""

    version: int
    snapshot: StoreSnapshot | None
    """None: the store starts empty."""

    deltas: tuple[Delta, ...]


class StoreFiles(ABC):
    """Finds and reads the versions of one store."""

    provider: Provider
    folder: str
    merge_delimiter: bytes
    """Between two values of a merged key."""

    row_checksums: bool
    """True if values begin with checksums (`spark.sql.streaming.stateStore.rowChecksum.enabled`):
    see `row_checksums`. Keys of changes never do."""

    @abstractmethod
    def plan(
        self, version: int, unique_id: str | None = None, *, avoid: Collection[int] = ()
    ) -> RestorePlan:
        """The files that make a committed version, with the newest usable snapshot.

        Lists the folder once. `unique_id` is the id of the version in checkpoint format v2.
        `avoid` has versions of snapshots that turned out to be damaged. Raises VersionGoneError
        if the job has removed the files, NotYetWrittenError if the version is newer than all
        files, CorruptDataError if a file in between is missing.
        """

    @abstractmethod
    def delta(self, version: int, unique_id: str | None = None) -> Delta | None:
        """The change from the version before to a committed version, already read.

        Does not list the folder. None if the job wrote a snapshot only: plan the version then.
        Raises as `plan`.
        """
