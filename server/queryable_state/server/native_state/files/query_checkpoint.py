"""The checkpoint of one Structured Streaming query, as Spark 3.5 to 4.3 writes it.

Read-only: nothing is ever written below the checkpoint's folder. Blocking; usable from every
thread, and it keeps no state, so that each call sees what the job has written meanwhile.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.file_systems.storage import MissingFileError, is_local, join
from queryable_state.server.native_state.files.checked_reads import CheckedReads
from queryable_state.server.native_state.files.checkpoint_logs import parse_commit, parse_offsets
from queryable_state.server.native_state.files.hdfs.hdfs_store_files import HdfsStoreFiles
from queryable_state.server.native_state.files.operator_files import OperatorFiles
from queryable_state.server.native_state.files.outcomes import (
    NotYetWrittenError,
    UnsupportedFormatError,
    damaged,
    lost,
    not_yet_written,
)
from queryable_state.server.native_state.files.rocksdb.rocksdb_store_files import RocksDbStoreFiles
from queryable_state.server.native_state.files.store_files import Provider
from queryable_state.server.native_state.files.version_chain import gone_batch
from queryable_state.wire.errors import CorruptDataError, VersionGoneError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage
    from queryable_state.server.native_state.files.checkpoint_logs import (
        CommitEntry,
        OffsetsEntry,
    )
    from queryable_state.server.native_state.files.operator_metadata import OperatorMetadata
    from queryable_state.server.native_state.files.store_files import StoreFiles
    from queryable_state.server.native_state.files.store_schema import StoreSchema
    from queryable_state.wire.errors import QueryableStateError

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
PROVIDER_CLASS = "spark.sql.streaming.stateStore.providerClass"
MERGE_OPERATOR_VERSION = "spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion"
ROW_CHECKSUMS = "spark.sql.streaming.stateStore.rowChecksum.enabled"

_PROVIDERS = {
    f"org.apache.spark.sql.execution.streaming.state.{provider.value}": provider
    for provider in Provider
}
# Delimiters of merged values by the version of the merge operator.
_DELIMITERS = {"1": b",", "2": b""}
_FIRST_OPERATOR = "1"


class QueryCheckpoint:
    """The files below one checkpoint location."""

    def __init__(self, storage: CheckpointStorage, root: str) -> None:
        self.root = root
        self._storage = storage
        self._commits = CheckedReads(storage, join(root, "commits"))
        self._offsets = CheckedReads(storage, join(root, "offsets"))
        self._operators = OperatorFiles(storage, join(root, "state"))

    def query_id(self) -> bytes:
        """The 16 bytes of the query's id, the same over restarts.

        Raises MissingFileError if the folder is no checkpoint of a query.
        """
        files = CheckedReads(self._storage, self.root)
        path = files.path("metadata")
        try:
            data = files.read("metadata")
        except MissingFileError as problem:
            what = "it has no file `metadata`" if self.has_files() else "it is empty or missing"
            literal = is_local(self.root) and "%" in self.root
            raise MissingFileError(
                f"{self.root} is no checkpoint of a Structured Streaming query, {what}: give the "
                "checkpointLocation of the query"
                + (", with spaces as they are: percent signs are literal" if literal else "")
            ) from problem
        try:
            return uuid.UUID(json.loads(data)["id"]).bytes
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise damaged(path, f"it has no id of a query ({problem!r})") from problem

    def has_files(self) -> bool:
        """True if something is in the folder, other than files that are being written."""
        return any(not name.startswith(".") for name in self._storage.list(self.root))

    def committed_batches(self) -> list[int]:
        """Ids of committed batches whose commit file still exists, ascending."""
        return _batches(self._storage.list(self._commits.folder))

    def find_commit(self, batch: int) -> CommitEntry | None:
        """As `commit`; None if the batch is not committed or its file gone. Does not list."""
        try:
            data = self._commits.read(str(batch))
        except MissingFileError:
            return None
        return parse_commit(data, batch, self._commits.path(str(batch))) if data else None

    def commit(self, batch: int) -> CommitEntry:
        """Reads the commit log's entry of a committed batch.

        Raises NotYetWrittenError if it is not committed, VersionGoneError if its file is removed.
        """
        data = self._entry(self._commits, batch)
        return parse_commit(data, batch, self._commits.path(str(batch)))

    def commit_time_ms(self, batch: int) -> int:
        """When the batch was committed, by the file's modification time; raises as `commit`."""
        try:
            return self._storage.modified_ms(self._commits.path(str(batch)))
        except MissingFileError as problem:
            raise self._no_entry(self._commits, batch) from problem

    def offsets(self, batch: int) -> OffsetsEntry:
        """Reads the offset log's entry of a batch that has begun.

        Raises as `commit`, and CorruptDataError if the batch is committed: the file was there, and
        the job removes a batch from both logs.
        """
        data = self._entry(self._offsets, batch)
        return parse_offsets(data, batch, self._offsets.path(str(batch)))

    def operators(
        self, batch: int, unreadable: dict[int, QueryableStateError] | None = None
    ) -> list[OperatorMetadata]:
        """The stateful operators as of a committed batch, by id; empty if there are none.

        Without metadata of Spark (3.5) stores and partitions come from the folders, and names
        are empty. An operator may use fewer partitions than it has: one without a key uses the
        first only. If the offsets of the batch are gone, partitions are those at the beginning.

        `unreadable` gets the error of each operator whose files are damaged or missing, by id;
        None: the first of them is raised.
        """
        found: list[OperatorMetadata] = []
        for operator_id in self._operators.ids():
            try:
                found.append(self._operators.operator(operator_id, batch))
            except (CorruptDataError, NotYetWrittenError) as problem:
                if unreadable is None:
                    raise
                unreadable[operator_id] = problem
        try:
            partitions = self.offsets(batch).conf.get(SHUFFLE_PARTITIONS, "") if found else ""
        except (NotYetWrittenError, VersionGoneError):
            partitions = ""
        return [operator.with_partitions(partitions) for operator in found]

    def schema(self, operator: OperatorMetadata, store: str) -> StoreSchema:
        """The types of one store; of each column family the newest and all earlier ones."""
        return self._operators.schema(operator, store)

    def store(
        self, operator_id: int, partition: int, store: str, conf: Mapping[str, str]
    ) -> StoreFiles:
        """The files of one store; `conf` is that of the offsets of a batch.

        Raises UnsupportedFormatError for another state store provider than Spark's two.
        """
        folder = self._operators.store_folder(operator_id, partition, store)
        row_checksums = conf.get(ROW_CHECKSUMS) == "true"
        if self.provider(conf) is Provider.HDFS_BACKED:
            return HdfsStoreFiles(self._storage, folder, row_checksums=row_checksums)
        return RocksDbStoreFiles(
            self._storage,
            folder,
            merge_delimiter=_merge_delimiter(conf, self.root),
            row_checksums=row_checksums,
        )

    def provider(self, conf: Mapping[str, str]) -> Provider:
        """The state store provider of the query; raises UnsupportedFormatError for others."""
        name = conf.get(PROVIDER_CLASS)
        if name is None:
            return Provider.HDFS_BACKED
        if name not in _PROVIDERS:
            raise UnsupportedFormatError(
                f"the query of {self.root} keeps its state with the provider {name} "
                f"({PROVIDER_CLASS}): only {' and '.join(_PROVIDERS)} are readable"
            )
        return _PROVIDERS[name]

    def _entry(self, log: CheckedReads, batch: int) -> bytes:
        try:
            data = log.read(str(batch))
        except MissingFileError as problem:
            raise self._no_entry(log, batch) from problem
        if not data:
            raise not_yet_written(log.path(str(batch)), "it is still empty")
        return data

    def _no_entry(self, log: CheckedReads, batch: int) -> QueryableStateError:
        missing = not_yet_written(log.path(str(batch)), "the job has not come so far")
        if log is self._offsets and batch in self.committed_batches():
            return lost(missing, batch)
        if any(each > batch for each in _batches(self._storage.list(log.folder))):
            return gone_batch(batch, log.folder)
        return missing


def _merge_delimiter(conf: Mapping[str, str], root: str) -> bytes:
    version = conf.get(MERGE_OPERATOR_VERSION, _FIRST_OPERATOR)
    if version not in _DELIMITERS:
        raise UnsupportedFormatError(
            f"the query of {root} has version {version} of the merge operator "
            f"({MERGE_OPERATOR_VERSION}), versions {', '.join(_DELIMITERS)} are known: update this "
            "library"
        )
    return _DELIMITERS[version]


def _batches(names: list[str]) -> list[int]:
    # Other names are temporary files, checksums and folders.
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())
