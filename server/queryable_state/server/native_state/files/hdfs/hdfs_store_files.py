"""Files of the HDFS-backed provider: `N.delta` of each version, `N.snapshot` of some.

Keys and values are UnsafeRows without a version byte.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.file_systems.storage import MissingFileError
from queryable_state.server.native_state.files.changes import ChangeKind
from queryable_state.server.native_state.files.checked_reads import CheckedReads
from queryable_state.server.native_state.files.codecs.compression import decompress
from queryable_state.server.native_state.files.outcomes import (
    damaged,
    file_removed,
    not_yet_written,
)
from queryable_state.server.native_state.files.record_stream import sized_records
from queryable_state.server.native_state.files.row_checksums import verified_changes
from queryable_state.server.native_state.files.store_files import (
    Delta,
    Provider,
    RecordFile,
    RestorePlan,
    StoreFiles,
)
from queryable_state.server.native_state.files.version_chain import choose_chain, gone

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage
    from queryable_state.server.native_state.files.changes import Changes

_NAME = re.compile(r"([0-9]+)\.(delta|snapshot)")


class HdfsStoreFiles(StoreFiles):
    """The store in one folder; it has no unique ids and no merges."""

    provider = Provider.HDFS_BACKED
    merge_delimiter = b""

    def __init__(
        self, storage: CheckpointStorage, folder: str, *, row_checksums: bool = False
    ) -> None:
        self.folder = folder
        self.row_checksums = row_checksums
        self._storage = storage
        self._files = CheckedReads(storage, folder)

    def plan(
        self, version: int, unique_id: str | None = None, *, avoid: Collection[int] = ()
    ) -> RestorePlan:
        snapshots, deltas = self._versions()
        base, chain = choose_chain(
            version, snapshots, deltas, self.folder, "{}.delta".format, avoid=avoid
        )
        snapshot = HdfsSnapshot(self._files, base, row_checksums=self.row_checksums)
        return RestorePlan(
            version, snapshot if base else None, tuple(self._delta(each) for each in chain)
        )

    def delta(self, version: int, unique_id: str | None = None) -> Delta | None:
        delta = self._delta(version)
        try:
            data = self._files.read(f"{version}.delta")
        except MissingFileError as problem:
            snapshots, deltas = self._versions()
            if version in snapshots:
                return None
            if max(snapshots | deltas, default=0) > version:
                raise gone(version, self.folder) from problem
            raise not_yet_written(delta.path, "its batch is not complete") from problem
        return Delta(version, delta.path, b"", lambda: self._changes(data, delta.path))

    def _versions(self) -> tuple[set[int], set[int]]:
        names = self._storage.list(self.folder)
        self._files.learn(names)
        found: dict[str, set[int]] = {"snapshot": set(), "delta": set()}
        for name in names:
            if match := _NAME.fullmatch(name):
                found[match[2]].add(int(match[1]))
        return found["snapshot"], found["delta"]

    def _delta(self, version: int) -> Delta:
        name = f"{version}.delta"
        path = self._files.path(name)
        return Delta(version, path, b"", lambda: self._changes(_read(self._files, name), path))

    def _changes(self, data: bytes, path: str) -> Changes:
        changes = sized_records(decompress(data, path), path)
        return verified_changes(changes, path) if self.row_checksums else changes


class HdfsSnapshot(RecordFile):
    """A file `N.snapshot`: all records of the store as of version N."""

    def __init__(self, files: CheckedReads, version: int, *, row_checksums: bool) -> None:
        self.version = version
        self.path = files.path(f"{version}.snapshot")
        self._files = files
        self._row_checksums = row_checksums

    @property
    def column_families(self) -> Mapping[str, int]:
        return {}

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        data = decompress(_read(self._files, f"{self.version}.snapshot"), self.path)
        return self._records(data)

    def _records(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        changes = sized_records(data, self.path)
        if self._row_checksums:
            changes = verified_changes(changes, self.path)
        for kind, key, value in changes:
            if kind is ChangeKind.DELETE:
                raise damaged(self.path, "a record of the snapshot has no value")
            yield key, value


def _read(files: CheckedReads, name: str) -> bytes:
    try:
        return files.read(name)
    except MissingFileError as problem:
        raise file_removed(files.path(name)) from problem
