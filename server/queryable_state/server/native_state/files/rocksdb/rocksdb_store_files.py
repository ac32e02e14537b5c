"""Files of the RocksDB provider: `V.changelog` of each version and `V.zip` of some, or only zips.

With checkpoint format v2 a file is `V_ID.changelog` or `V_ID.zip`, and a changelog names the ids of
the versions before it, so that files of failed batches are never read.

Keys and values begin with a version byte; keys of stores with column families have the id of
theirs in front.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.file_systems.storage import MissingFileError
from queryable_state.server.native_state.files.checked_reads import CheckedReads
from queryable_state.server.native_state.files.codecs.compression import decompress
from queryable_state.server.native_state.files.outcomes import (
    damaged,
    file_removed,
    not_yet_written,
)
from queryable_state.server.native_state.files.rocksdb.changelog import Changelog
from queryable_state.server.native_state.files.rocksdb.rocksdb_snapshot import RocksDbSnapshot
from queryable_state.server.native_state.files.row_checksums import verified_changes
from queryable_state.server.native_state.files.store_files import (
    Delta,
    Provider,
    RestorePlan,
    StoreFiles,
)
from queryable_state.server.native_state.files.version_chain import choose_chain, gone

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage
    from queryable_state.server.native_state.files.changes import Changes

_NAME = re.compile(r"([0-9]+)(?:_([^.]+))?\.(changelog|zip)")

_Files = set[tuple[int, str | None]]


class RocksDbStoreFiles(StoreFiles):
    """The files of one RocksDB state store of Spark: one folder of a partition."""

    provider = Provider.ROCKSDB

    def __init__(
        self,
        storage: CheckpointStorage,
        folder: str,
        *,
        merge_delimiter: bytes = b",",
        row_checksums: bool = False,
    ) -> None:
        self.folder = folder
        self.merge_delimiter = merge_delimiter
        self.row_checksums = row_checksums
        self._storage = storage
        self._files = CheckedReads(storage, folder)

    def plan(
        self, version: int, unique_id: str | None = None, *, avoid: Collection[int] = ()
    ) -> RestorePlan:
        zips, changelogs = self._listed()
        ids: Mapping[int, str | None]
        if unique_id is None:
            ids = dict.fromkeys(range(version + 1))
        else:
            ids = self._lineage(version, unique_id, zips, changelogs, avoid)
        base, chain = choose_chain(
            version,
            {each for each, unique in zips if each in ids and ids[each] == unique},
            {each for each, unique in changelogs if each in ids and ids[each] == unique},
            self.folder,
            lambda each: _name(
                each,
                ids.get(each, None if unique_id is None else "*"),
                "changelog" if changelogs else "zip",
            ),
            avoid=avoid,
            other_snapshots={each for each, _ in zips},
        )
        return RestorePlan(
            version,
            self._snapshot(base, ids[base]) if base else None,
            tuple(self._delta(each, ids[each]) for each in chain),
        )

    def delta(self, version: int, unique_id: str | None = None) -> Delta | None:
        name = _name(version, unique_id, "changelog")
        path = self._files.path(name)
        try:
            log = self._changelog(version, unique_id)
        except MissingFileError as problem:
            zips, changelogs = self._listed()
            if (version, unique_id) in zips:
                return None
            if (version, unique_id) in changelogs:
                raise file_removed(path) from problem
            if any(each > version for each, _ in zips):
                raise gone(version, self.folder) from problem
            raise not_yet_written(path, "its batch is not complete") from problem
        return Delta(version, path, self.merge_delimiter, lambda: self._changes(log, path))

    def _listed(self) -> tuple[_Files, _Files]:
        names = self._storage.list(self.folder)
        self._files.learn(names)
        found: dict[str, _Files] = {"zip": set(), "changelog": set()}
        for name in names:
            if match := _NAME.fullmatch(name):
                found[match[3]].add((int(match[1]), match[2]))
        return found["zip"], found["changelog"]

    def _lineage(
        self,
        version: int,
        unique_id: str,
        zips: _Files,
        changelogs: _Files,
        avoid: Collection[int],
    ) -> dict[int, str | None]:
        """The unique id of each version, down to a usable snapshot or as far as files go."""
        ids: dict[int, str | None] = {version: unique_id}
        oldest = version
        while True:
            for each in sorted(ids):
                if (each, ids[each]) in zips and each not in avoid:
                    return ids
            if oldest <= 1 or (oldest, ids[oldest]) not in changelogs:
                return ids
            try:
                lineage = self._changelog(oldest, ids[oldest]).lineage
            except MissingFileError:
                return ids
            older = {item.version: item.unique_id for item in lineage if item.version < oldest}
            if not older:
                raise damaged(
                    self._files.path(_name(oldest, ids[oldest], "changelog")),
                    "its lineage names no version before its own",
                )
            ids.update(older)
            oldest = min(older)

    def _snapshot(self, version: int, unique_id: str | None) -> RocksDbSnapshot:
        return RocksDbSnapshot(
            self._storage,
            self._files,
            _name(version, unique_id, "zip"),
            version,
            self.merge_delimiter,
        )

    def _delta(self, version: int, unique_id: str | None) -> Delta:
        path = self._files.path(_name(version, unique_id, "changelog"))

        def changes() -> Changes:
            try:
                log = self._changelog(version, unique_id)
            except MissingFileError as problem:
                raise file_removed(path) from problem
            return self._changes(log, path)

        return Delta(version, path, self.merge_delimiter, changes)

    def _changelog(self, version: int, unique_id: str | None) -> Changelog:
        name = _name(version, unique_id, "changelog")
        path = self._files.path(name)
        return Changelog(decompress(self._files.read(name), path), path)

    def _changes(self, log: Changelog, path: str) -> Changes:
        changes = log.changes()
        if self.row_checksums:
            return verified_changes(changes, path, self.merge_delimiter)
        return changes


def _name(version: int, unique_id: str | None, suffix: str) -> str:
    return f"{version}.{suffix}" if unique_id is None else f"{version}_{unique_id}.{suffix}"
