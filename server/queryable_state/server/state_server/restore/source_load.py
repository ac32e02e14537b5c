"""Load of one checkpoint or savepoint into a new store."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import checkpoint_pb2, coordinator_pb2
from queryable_state.server.checkpoint.canonical import FILE_NAME, read_canonical
from queryable_state.server.checkpoint.layout import resolve
from queryable_state.server.state_server.restore.key_placement import KeyPlacement, sample
from queryable_state.server.state_server.restore.operator_lists import OperatorLists
from queryable_state.server.state_server.restore.stored_files import (
    BrokenFilesError,
    raise_first_or_all_broken,
)
from queryable_state.server.storage.store import NOTHING_COMMITTED
from queryable_state.v1 import registration_pb2
from queryable_state.wire.errors import CorruptDataError
from queryable_state.wire.keys.key_groups import key_group_range

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from queryable_state.internal.v1.checkpoint_pb2 import (
        JobStorage,
        RangeSnapshot,
        RestorePlan,
        RestoreSource,
    )
    from queryable_state.server.state_server.base.job_files import JobFiles
    from queryable_state.server.state_server.base.thread_pool import ThreadPool
    from queryable_state.server.state_server.restore.stored_files import StoredFiles
    from queryable_state.server.state_server.stores.owned_subtask import SubtaskId
    from queryable_state.server.state_server.stores.store_factory import StoreFactory
    from queryable_state.server.storage.store import StateStore

    Placed = list[tuple[RangeSnapshot, Mapping[str, Path]]]


class SourceLoad:
    """Creates stores of one subtask, loaded from the sources of a restore plan or empty."""

    def __init__(
        self,
        subtask_id: SubtaskId,
        plan: RestorePlan,
        settings: JobStorage,
        stores: StoreFactory,
        stored: StoredFiles,
        threads: ThreadPool,
    ) -> None:
        self._id = subtask_id
        self._settings = settings
        self._states = {state.state_id: state for state in plan.states}
        self._placement = KeyPlacement(self._states)
        self._stores = stores
        self._stored = stored
        self._threads = threads
        self._first, self._last = key_group_range(
            subtask_id.subtask, subtask_id.parallelism, subtask_id.max_parallelism
        )

    async def nothing(self) -> tuple[StateStore, OperatorLists]:
        """Returns an empty store, as before the first batch."""
        store = await self._threads.run(self._empty, NOTHING_COMMITTED)
        return store, OperatorLists(self._states)

    async def source(
        self, source: RestoreSource, files: JobFiles
    ) -> tuple[StateStore, OperatorLists]:
        """Returns a store at the source's version, and the operator state of all subtasks at it.

        Raises `BrokenFilesError` if the source is not intact.
        """
        ranges = [part for part in source.ranges if self._overlaps(part)]
        results = await asyncio.gather(
            *(self._stored.get(files, part.files, source.location) for part in ranges),
            return_exceptions=True,
        )
        raise_first_or_all_broken(results)
        placed: Placed = [
            (part, paths)
            for part, paths in zip(ranges, results, strict=True)
            if not isinstance(paths, BaseException)
        ]
        try:
            store = await self._threads.run(self._fill, source, placed)
        except CorruptDataError as failure:
            # The checksums are right, but the content is not valid.
            raise BrokenFilesError(
                [coordinator_pb2.BrokenFile(path=source.location, problem=str(failure))]
            ) from failure
        return store, self._lists(source)

    def _overlaps(self, part: RangeSnapshot) -> bool:
        return part.first_key_group <= self._last and part.last_key_group >= self._first

    def _lists(self, source: RestoreSource) -> OperatorLists:
        lists = OperatorLists(self._states)
        ids = _here(source)
        for part in source.ranges:
            lists.run_at(part.parallelism)
            for state in part.operator_states:
                state_id = state.state_id if ids is None else ids.get(state.state_id)
                if state_id is not None:
                    lists.set(state_id, part.index, state.elements)
        return lists

    def _empty(self, version: int) -> StateStore:
        store = self._stores.new(self._id, version, self._settings)
        self._add_states(store)
        return store

    def _add_states(self, store: StateStore) -> None:
        for state_id, state in self._states.items():
            store.add_state(state_id, timers=state.kind == registration_pb2.TIMER)

    def _fill(self, source: RestoreSource, placed: Placed) -> StateStore:
        ids = _here(source)
        if self._fits(placed, ids):
            [(_, files)] = placed
            store = self._stores.from_files(self._id, source.version, self._settings, files)
            try:
                self._add_states(store)
                self._placement.check_store(
                    self._name(source, placed[0][0]), store, (self._first, self._last)
                )
            except BaseException:
                store.destroy()
                raise
            return store
        store = self._empty(source.version)
        try:
            added = set(self._states)
            with store.bulk_load() as load:
                for part, files in placed:
                    name = self._name(source, part)
                    key_groups = part.first_key_group, part.last_key_group
                    for stored_id, records in self._records(part, files):
                        state_id = stored_id if ids is None else ids.get(stored_id)
                        if state_id is None:
                            # The job allows this state to be dropped.
                            continue
                        if state_id not in added:
                            store.add_state(state_id)
                            added.add(state_id)
                        self._placement.check(
                            name, state_id, [key for key, _ in sample(records)], key_groups
                        )
                        load.put(state_id, records)
        except BaseException:
            store.destroy()
            raise
        return store

    def _name(self, source: RestoreSource, part: RangeSnapshot) -> str:
        """The name of a subtask's snapshot, for errors: that of its file if it has only one."""
        if len(part.files) == 1 and part.files[0].path:
            return resolve(source.root, part.files[0].path)
        return (
            f"the snapshot of key groups {part.first_key_group} to {part.last_key_group} of "
            f"operator {self._id.operator_uid!r} in {source.location}"
        )

    def _fits(self, placed: Placed, ids: Mapping[int, int] | None) -> bool:
        """True if the files can become the store's own: one RocksDB of these key groups and ids."""
        if len(placed) != 1 or self._stores.backend(self._settings) != "rocksdb":
            return False
        [(part, _)] = placed
        return (
            part.format == checkpoint_pb2.ROCKSDB
            and (part.first_key_group, part.last_key_group) == (self._first, self._last)
            and (ids is None or all(stored == here for stored, here in ids.items()))
        )

    def _records(
        self, part: RangeSnapshot, files: Mapping[str, Path]
    ) -> Iterator[tuple[int, Sequence[tuple[bytes, bytes]]]]:
        first = max(self._first, part.first_key_group)
        last = min(self._last, part.last_key_group)
        if part.format == checkpoint_pb2.ROCKSDB:
            # Imported here: heap checkpoints need no rocksdict.
            from queryable_state.server.storage.rocksdb.files import read_rocksdb_files

            scratch = next(iter(files.values())).parent
            return read_rocksdb_files(files, scratch, first, last)
        return read_canonical(files[FILE_NAME], first, last)


def _here(source: RestoreSource) -> dict[int, int] | None:
    """State ids of this run by the ids in the source's files; None if they are equal."""
    if not source.stored_state_ids:
        return None
    return dict(zip(source.stored_state_ids, source.state_ids, strict=True))
