"""Files of one state partition of a Spark query: its stores of raw records, and their changes."""

from __future__ import annotations

import logging
import shutil
from itertools import starmap
from typing import TYPE_CHECKING

from queryable_state.server.native_state.files.changes import FoldedChanges
from queryable_state.server.native_state.files.outcomes import FileRemovedError, of_committed
from queryable_state.server.native_state.files.store_files import (
    Provider,
    RecordFile,
    RocksDbFiles,
)
from queryable_state.server.native_state.store.raw_overlays import raw_overlay
from queryable_state.server.native_state.store.spark_rocksdb import (
    SparkRocksDBBase,
    open_empty,
    open_snapshot,
)
from queryable_state.server.process.rate_limited_log import RateLimitedLog
from queryable_state.server.storage.heap.store import HeapBase
from queryable_state.server.storage.layered.store import LayeredStore
from queryable_state.server.storage.rocksdb.store import RocksDBBase
from queryable_state.wire.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rocksdict import Rdict

    from queryable_state.server.native_state.files.store_files import (
        Delta,
        RestorePlan,
        StoreFiles,
        StoreSnapshot,
    )
    from queryable_state.server.native_state.operators.physical_form import PhysicalForm
    from queryable_state.server.native_state.store.key_placement import PlacementCheck
    from queryable_state.server.storage.base import StateBase
    from queryable_state.server.storage.overlay import Overlay
    from queryable_state.server.storage.rocksdb.settings import RocksDBSettings

_log = logging.getLogger(__name__)
_warnings = RateLimitedLog(_log)

# The job may remove the files of a plan meanwhile, each time.
_MOST_PLANS = 8


class PartitionFiles:
    """The files of the sources of one partition. Blocking; one call at a time.

    Versions are batches: batch N is version N + 1 of Spark's stores.
    """

    def __init__(
        self,
        sources: Sequence[StoreFiles],
        new_directory: Callable[[], Path],
        settings: RocksDBSettings,
        *,
        placement: PlacementCheck,
        physical: Sequence[PhysicalForm] = (),
        backend: str = "",
        kept_batches: int = 16,
    ) -> None:
        """`new_directory`: a path for a store that does not exist yet. `physical`: makes raw
        records of the bare rows of each source; empty: the files have raw records. `backend`: of
        records that are in no RocksDB of Spark's; empty: the heap. `kept_batches`: a store keeps
        the changes of so many batches apart, if their files are there, to read older versions."""
        self._sources = sources
        self._new_directory = new_directory
        # Of each source: data files of its last snapshot, so that the next one needs only new ones.
        self._downloads = [new_directory() for _ in sources]
        self._settings = settings
        self._placement = placement
        self._physical = physical
        self._backend = backend or "heap"
        self._kept_batches = kept_batches

    def open(self, batch: int, ids: Sequence[str | None]) -> LayeredStore:
        """A store of the raw records as of a committed batch.

        `ids`: the unique id of each source then. Raises VersionGoneError or CorruptDataError as
        `StoreFiles.plan`, the latter also for a file that is lost.
        """
        with of_committed(batch):
            return self._planned(batch, ids)

    def _planned(self, batch: int, ids: Sequence[str | None]) -> LayeredStore:
        unreadable = [_Unreadable() for _ in self._sources]
        damage: CorruptDataError | None = None
        for attempt in range(1, _MOST_PLANS + 1):
            try:
                plans = [
                    files.plan(batch + 1, unique_id, avoid=each.snapshots)
                    for files, unique_id, each in zip(self._sources, ids, unreadable, strict=True)
                ]
            except CorruptDataError as no_plan:
                # It knows only that a snapshot is left out, not why.
                raise damage or no_plan from None
            try:
                return self._opened(batch, plans, unreadable)
            except FileRemovedError as removed:
                if attempt == _MOST_PLANS:
                    raise
                _log.info("planning again: %s", removed)
            except _DamagedSnapshotError as problem:
                damage = problem.cause
                if attempt == _MOST_PLANS:
                    raise damage from None
                _warnings.write(
                    logging.WARNING, str(problem), "trying an older snapshot: %s", damage
                )
        raise AssertionError

    def check(self, batch: int, ids: Sequence[str | None]) -> None:
        """Checks that the files of a batch are there, without reading them; raises as `open`."""
        with of_committed(batch):
            for files, unique_id in zip(self._sources, ids, strict=True):
                files.plan(batch + 1, unique_id)

    def step(
        self, batch: int, ids: Sequence[str | None], read: Callable[[int, bytes], bytes | None]
    ) -> Overlay | None:
        """The raw changes of a committed batch, the one after that which `read(source, key)` reads.

        None if a source has a snapshot instead of changes: open the store anew. Raises as
        `StoreFiles.delta`.
        """
        changes = {}
        with of_committed(batch):
            for source, (files, unique_id) in enumerate(zip(self._sources, ids, strict=True)):
                delta = files.delta(batch + 1, unique_id)
                if delta is None:
                    return None
                changes[source] = self._folded(source, delta)
        return raw_overlay(changes, self._sources[0].merge_delimiter, read)

    def _opened(
        self, batch: int, plans: Sequence[RestorePlan], unreadable: Sequence[_Unreadable]
    ) -> LayeredStore:
        newest_snapshot = max(
            0 if plan.snapshot is None else plan.snapshot.version for plan in plans
        )
        # Older changes go into the base at once; those of the newest batches stay apart.
        base_version = max(newest_snapshot, batch + 1 - self._kept_batches)
        directory = self._new_directory()
        base = self._base(directory, plans, unreadable)
        try:
            for source, plan in enumerate(plans):
                for delta in plan.deltas:
                    if delta.version <= base_version:
                        self._apply(base, source, delta)
            store = LayeredStore(base, base_version - 1)
        except BaseException:
            base.close()
            base.destroy()
            raise
        try:
            for version in range(base_version + 1, batch + 2):
                changes = {
                    source: self._folded(source, delta)
                    for source, plan in enumerate(plans)
                    for delta in plan.deltas
                    if delta.version == version
                }
                overlay = raw_overlay(
                    changes,
                    self._sources[0].merge_delimiter,
                    lambda source, key: store.reader(source)(key),
                )
                store.seal(version - 1, overlay, (0, 0))
                store.commit(version - 1)
        except BaseException:
            store.destroy()
            raise
        return store

    def _apply(self, base: StateBase, source: int, delta: Delta) -> None:
        read = base.source(source).reader()
        overlay = raw_overlay(
            {source: self._folded(source, delta)},
            self._sources[source].merge_delimiter,
            lambda _, key: read(key),
        )
        if source in overlay.states:
            base.apply(source, overlay.states[source].records, None)

    def _base(
        self, directory: Path, plans: Sequence[RestorePlan], unreadable: Sequence[_Unreadable]
    ) -> StateBase:
        if self._sources[0].provider == Provider.ROCKSDB:
            return self._rocksdb_base(directory, plans, unreadable)
        base: StateBase
        base = HeapBase() if self._backend == "heap" else RocksDBBase(directory, self._settings)
        try:
            for source in range(len(plans)):
                base.add_state(source)
            with base.bulk_load() as load:
                for source, plan in enumerate(plans):
                    if isinstance(plan.snapshot, RecordFile):
                        load.put(source, self._records(source, plan.snapshot, unreadable[source]))
        except BaseException:
            base.close()
            base.destroy()
            raise
        return base

    def _rocksdb_base(
        self, directory: Path, plans: Sequence[RestorePlan], unreadable: Sequence[_Unreadable]
    ) -> SparkRocksDBBase:
        databases: dict[int, Rdict] = {}
        try:
            for source, plan in enumerate(plans):
                databases[source] = self._database(
                    source, directory / str(source), plan.snapshot, unreadable[source]
                )
            return SparkRocksDBBase(directory, databases)
        except BaseException:
            for database in databases.values():
                database.close()
            shutil.rmtree(directory, ignore_errors=True)
            raise

    def _database(
        self,
        source: int,
        path: Path,
        snapshot: StoreSnapshot | None,
        unreadable: _Unreadable,
    ) -> Rdict:
        path.parent.mkdir(parents=True, exist_ok=True)
        if snapshot is None:
            return open_empty(path, self._settings)
        assert isinstance(snapshot, RocksDbFiles)
        try:
            snapshot.place(path, self._downloads[source])
            database = open_snapshot(path, self._settings)
            try:
                self._placement.check_database(source, snapshot.path, database)
            except BaseException:
                database.close()
                raise
            return database
        except FileRemovedError:
            unreadable.removed(snapshot.version)
            raise
        except CorruptDataError as cause:
            unreadable.snapshots.add(snapshot.version)
            if not str(cause).startswith(snapshot.path):
                cause = CorruptDataError(f"{snapshot.path}: {cause}", reason=cause.reason)
            raise _DamagedSnapshotError(cause) from cause

    def _records(
        self, source: int, snapshot: RecordFile, unreadable: _Unreadable
    ) -> list[tuple[bytes, bytes]]:
        """The raw records of a snapshot, in order."""
        try:
            records = sorted(starmap(self._physical[source], snapshot.records()))
            self._placement.check_records(source, snapshot.path, [key for key, _ in records])
            return records
        except CorruptDataError as cause:
            unreadable.snapshots.add(snapshot.version)
            raise _DamagedSnapshotError(cause) from cause

    def _folded(self, source: int, delta: Delta) -> FoldedChanges:
        """The newest change of each key of a delta, as raw records whose placement is checked."""
        folded = delta.folded()
        if self._physical:
            folded = self._physically(source, folded)
        self._placement.check_changes(source, delta.path, folded.values, folded.appended)
        return folded

    def _physically(self, source: int, folded: FoldedChanges) -> FoldedChanges:
        form = self._physical[source]
        values: dict[bytes, bytes | None] = {}
        for key, value in folded.values.items():
            raw_key, raw_value = form(key, value or b"")
            values[raw_key] = None if value is None else raw_value
        return FoldedChanges(values, folded.appended)


class _Unreadable:
    """The snapshots of a source that could not be read."""

    def __init__(self) -> None:
        self.snapshots: set[int] = set()
        self._removed: set[int] = set()

    def removed(self, version: int) -> None:
        """Notes that a file of a snapshot is gone: a newer one replaces it, unless it is chosen
        again."""
        (self.snapshots if version in self._removed else self._removed).add(version)


class _DamagedSnapshotError(Exception):
    """A snapshot cannot be read; it is in the list of those to avoid."""

    def __init__(self, cause: CorruptDataError) -> None:
        super().__init__(str(cause))
        self.cause = cause
