"""Restores of versions of a store, for tests: its records as a dictionary."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocksdict import AccessType, Options, Rdict

from queryable_state.server.native_state.files.query_checkpoint import QueryCheckpoint
from queryable_state.server.native_state.files.store_files import RecordFile, RocksDbFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage
    from queryable_state.server.native_state.files.changes import FoldedChanges
    from queryable_state.server.native_state.files.store_files import (
        RestorePlan,
        StoreFiles,
        StoreSnapshot,
    )

Records = dict[bytes, bytes]


@dataclass(frozen=True)
class Store:
    """One store of a checkpoint and the id of each of its versions."""

    name: str
    files: StoreFiles
    ids: dict[int, str | None]
    """Unique ids by version, of all committed batches."""

    @property
    def newest(self) -> int:
        """The version of the newest committed batch."""
        return max(self.ids)

    def plan(self, version: int, avoid: tuple[int, ...] = ()) -> RestorePlan:
        """The plan of a version."""
        return self.files.plan(version, self.ids[version], avoid=avoid)


def stores(storage: CheckpointStorage, root: str) -> Iterator[Store]:
    """All stores of all partitions."""
    query = QueryCheckpoint(storage, root)
    commits = [query.commit(batch) for batch in query.committed_batches()]
    newest = commits[-1].batch
    conf = query.offsets(newest).conf
    for operator in query.operators(newest):
        for index, store in enumerate(operator.stores):
            for partition in range(operator.partitions):
                yield Store(
                    f"{operator.operator_id}/{partition}/{store.name}",
                    query.store(operator.operator_id, partition, store.name, conf),
                    {
                        commit.batch + 1: commit.unique_id(operator.operator_id, partition, index)
                        for commit in commits
                    },
                )


def restored(files: StoreFiles, plan: RestorePlan) -> Records:
    """The records of a planned version."""
    records = {} if plan.snapshot is None else snapshot_records(plan.snapshot)
    for delta in plan.deltas:
        change(records, delta.folded(), files.merge_delimiter)
    return records


def snapshot_records(snapshot: StoreSnapshot) -> Records:
    """The records of a snapshot."""
    if isinstance(snapshot, RecordFile):
        return dict(snapshot.records())
    assert isinstance(snapshot, RocksDbFiles)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "placed"
        snapshot.place(directory)
        return rocksdb_records(directory)


def rocksdb_records(directory: Path, access: AccessType | None = None) -> Records:
    """All records of a RocksDB."""
    options, families = Options.load_latest(str(directory), ignore_unknown_options=True)
    database = Rdict(
        str(directory),
        options=options,
        column_families=families,
        access_type=access or AccessType.read_only(),
    )
    try:
        records = {}
        cursor = database.iter()
        cursor.seek_to_first()
        while cursor.valid():
            records[cursor.key()] = cursor.value()
            cursor.next()
        cursor.status()
        del cursor
        return records
    finally:
        database.close()


def change(records: Records, changes: FoldedChanges, delimiter: bytes) -> None:
    """Applies the changes of one version."""
    for key, value in changes.values.items():
        if value is None:
            records.pop(key, None)
        else:
            records[key] = value
    for key, value in changes.appended.items():
        records[key] = records[key] + delimiter + value if key in records else value
