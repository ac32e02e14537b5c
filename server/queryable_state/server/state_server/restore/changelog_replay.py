"""Replay of changelogs: from the version a store was loaded at to the batch that begins."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.server.checkpoint.file_systems.storage import checksum
from queryable_state.server.checkpoint.layout import parse_changelog_file, resolve
from queryable_state.server.state_server.restore.key_placement import KeyPlacement
from queryable_state.server.state_server.restore.operator_lists import OperatorLists, parallelism_of
from queryable_state.server.state_server.restore.stored_files import (
    BrokenFilesError,
    raise_first_or_all_broken,
)
from queryable_state.server.state_server.stores.due_timers import timer_state, timers_after
from queryable_state.server.state_server.stores.owned_subtask import SealMark
from queryable_state.server.state_server.watches.change_history import (
    DEFAULT_BYTES,
    ChangeHistory,
)
from queryable_state.server.storage.overlay import OverlayBuilder
from queryable_state.wire.changelog import Changelog, read_changelog
from queryable_state.wire.errors import QueryableStateError, RetryLaterError
from queryable_state.wire.keys.key_groups import key_group_range, subtask_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from queryable_state.internal.v1.checkpoint_pb2 import ChangelogFile
    from queryable_state.server.state_server.base.job_files import JobFiles
    from queryable_state.server.state_server.base.thread_pool import ThreadPool
    from queryable_state.server.state_server.stores.owned_subtask import SubtaskId
    from queryable_state.server.storage.overlay import Overlay
    from queryable_state.server.storage.store import StateStore
    from queryable_state.server.storage.time_index import NextTimers
    from queryable_state.v1 import registration_pb2

    Batch = list[tuple[ChangelogFile, Changelog]]

# Limits of reading ahead. The next batch is always read, however large it is.
_BATCHES_AHEAD = 8
_BYTES_AHEAD = 64 << 20
_RETRY_MS = 200


class ChangelogReplay:
    """Applies the changelogs of batches, in order, to a store that is not shared yet.

    Only records of the subtask's key groups are taken, and of each file only the key groups
    it is valid for. Operator state is redistributed whenever the parallelism changes. The
    next batches are read while one is applied.
    """

    def __init__(
        self,
        subtask_id: SubtaskId,
        store: StateStore,
        lists: OperatorLists,
        files: JobFiles,
        threads: ThreadPool,
        *,
        states: Sequence[registration_pb2.StateRegistration],
    ) -> None:
        """`states`: those of the operator, by the ids in the changelogs."""
        self.read_bytes = 0
        """Bytes of the files read."""
        self.staged_offsets = b""
        """Digest of the offsets of the staged batch; empty: nothing is staged."""
        self.history = ChangeHistory(store.committed_version)
        """The changes of the newest batches applied, for watches."""
        self._id = subtask_id
        self._store = store
        self._lists = lists
        self._files = files
        self._threads = threads
        self._timers = timer_state(states)
        self._placement = KeyPlacement({state.state_id: state for state in states})
        self._range = key_group_range(
            subtask_id.subtask, subtask_id.parallelism, subtask_id.max_parallelism
        )

    async def apply(self, changelogs: Iterable[ChangelogFile], after: int, up_to: int) -> None:
        """Applies the batches above `after` up to `up_to`, the store's version afterwards.

        Raises `BrokenFilesError` if a file is broken or missing.
        """
        self.history = ChangeHistory(after)
        wanted = sorted(
            (file for file in changelogs if after < file.batch_id <= up_to),
            key=lambda file: file.batch_id,
        )
        batches = [list(files) for _, files in groupby(wanted, lambda file: file.batch_id)]
        reading: deque[asyncio.Task[Batch]] = deque()
        try:
            for position in range(len(batches)):
                ahead_bytes = 0
                for ahead, files in enumerate(batches[position : position + _BATCHES_AHEAD]):
                    if ahead >= len(reading):
                        reading.append(asyncio.create_task(self._read(files)))
                    ahead_bytes += sum(file.size_bytes for file in files)
                    if ahead_bytes > _BYTES_AHEAD:
                        break
                batch = await reading[0]
                reading.popleft()
                await self._threads.run(self._load, batch)
        finally:
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)
        await self._threads.run(self._finish, up_to)

    async def stage(self, staged: Iterable[ChangelogFile], batch_id: int) -> SealMark | None:
        """Seals again what an earlier attempt had sealed of the batch that begins.

        Stages nothing without a file of the subtask's key groups. The token is the highest of
        these files: attempts at other subtasks fence none at this one. Returns the mark of the
        seal if a single attempt at this subtask wrote it, else None. Raises `RetryLaterError` if
        a file has changed since the plan was made.
        """
        wanted = [file for file in staged if file.batch_id == batch_id]
        if not any(map(self._overlaps, wanted)):
            return None
        try:
            batch = await self._read(wanted)
        except BrokenFilesError as failure:
            raise RetryLaterError(
                f"{self._id}: the sealed changelogs of batch {batch_id} have changed since the "
                f"restore was planned: {failure}; begin the batch again",
                retry_after_ms=_RETRY_MS,
            ) from failure
        mine = [each for each in batch if self._overlaps(each[0])]
        token = max((file.token.run_epoch, file.token.task_attempt) for file, _ in mine)
        overlay, next_timers = await self._threads.run(self._staged_overlay, batch)
        self._store.seal(batch_id, overlay, token)
        self.staged_offsets = batch[0][1].offsets_digest
        if [self._written_range(file) for file, _ in mine] != [self._range]:
            return None
        [(file, changelog)] = mine
        return replace(SealMark.of(changelog.seal, file), next_timers=next_timers)

    async def _read(self, files: Sequence[ChangelogFile]) -> Batch:
        results = await asyncio.gather(
            *(self._files.transfer(self._read_one, file) for file in files),
            return_exceptions=True,
        )
        raise_first_or_all_broken(results)
        return [
            (file, changelog)
            for file, changelog in zip(files, results, strict=True)
            if isinstance(changelog, Changelog)
        ]

    def _read_one(self, file: ChangelogFile) -> Changelog:
        uri = resolve(self._files.root, file.path)
        try:
            data = self._files.storage.read(uri)
            self.read_bytes += len(data)
            if file.checksum and checksum(data) != file.checksum:
                raise _broken(uri, "its bytes fail their checksum")
            changelog = read_changelog(data)
            self._check_keys(uri, file, changelog)
        except RetryLaterError:
            raise
        except QueryableStateError as failure:
            raise _broken(uri, str(failure)) from failure
        if changelog.batch_id != file.batch_id:
            raise _broken(uri, f"it belongs to batch {changelog.batch_id}, not {file.batch_id}")
        return changelog

    def _check_keys(self, uri: str, file: ChangelogFile, changelog: Changelog) -> None:
        written = self._written_range(file)
        for block in changelog.blocks:
            for keys in (block.put_keys, block.deleted_keys, block.cleared_prefixes):
                self._placement.check(uri, block.state_id, keys, written)

    def _load(self, batch: Batch) -> None:
        builder = OverlayBuilder()
        self._add_records(builder, batch)
        self._add_lists(self._lists, batch)
        overlay = builder.build()
        self._make_room(overlay)
        self._store.load(batch[0][0].batch_id, overlay)
        self.history.add(batch[0][0].batch_id, 0, overlay, DEFAULT_BYTES)

    def _finish(self, version: int) -> None:
        """Loads the subtask's operator state, and moves over batches without changes."""
        self._lists.run_at(self._id.parallelism)
        self._store.load(max(version, self._store.committed_version), OverlayBuilder().build())
        self._store.load_operator_states(self._lists.of(self._id.subtask))

    def _staged_overlay(self, batch: Batch) -> tuple[Overlay, NextTimers | None]:
        """The overlay of a batch, and the timers that are pending after it."""
        builder = OverlayBuilder()
        self._add_records(builder, batch)
        lists = self._lists.copy()
        if self._add_lists(lists, batch):
            lists.run_at(self._id.parallelism)
            before = self._lists.of(self._id.subtask)
            for state_id, elements in lists.of(self._id.subtask).items():
                if elements != before.get(state_id):
                    builder.set_operator_state(state_id, elements)
        overlay = builder.build()
        self._make_room(overlay)
        return overlay, timers_after(self._store, self._timers, overlay)

    def _overlaps(self, file: ChangelogFile) -> bool:
        """True if the file has key groups of this subtask, not only operator state."""
        first, last = self._range
        return file.first_key_group <= last and file.last_key_group >= first

    def _make_room(self, overlay: Overlay) -> None:
        for state_id in overlay.state_ids:
            self._store.add_state(state_id)

    def _add_records(self, builder: OverlayBuilder, batch: Batch) -> None:
        for file, changelog in batch:
            if not self._overlaps(file):
                continue
            first = max(file.first_key_group, self._range[0])
            last = min(file.last_key_group, self._range[1])
            for block in changelog.blocks:
                builder.add_clipped(block, first, last)

    def _add_lists(self, lists: OperatorLists, batch: Batch) -> bool:
        """Adds the operator state of a batch; False if the operator has none."""
        if not lists:
            return False
        ranges = [self._written_range(file) for file, _ in batch]
        parallelism = max(file.parallelism for file, _ in batch) or parallelism_of(
            ranges, self._id.max_parallelism, self._id.parallelism
        )
        lists.run_at(parallelism)
        # A file has several entries if another file replaces its middle: it counts once.
        for state_id, index, elements in _operator_changes(
            batch, ranges, parallelism, self._id.max_parallelism
        ):
            lists.set(state_id, index, elements)
        return True

    def _written_range(self, file: ChangelogFile) -> tuple[int, int]:
        """Returns the key groups of the subtask that wrote a file."""
        if file.parallelism:
            return key_group_range(file.index, file.parallelism, self._id.max_parallelism)
        path = parse_changelog_file(file.path)
        if path is None:
            return file.first_key_group, file.last_key_group
        return path.first_key_group, path.last_key_group


def _operator_changes(
    batch: Batch, ranges: Sequence[tuple[int, int]], parallelism: int, max_parallelism: int
) -> Iterator[tuple[int, int, Sequence[bytes]]]:
    """Yields state id, subtask and elements of each change, in the order of the attempts."""
    ordered = sorted(
        zip(batch, ranges, strict=True),
        key=lambda each: (each[0][0].token.run_epoch, each[0][0].token.task_attempt),
    )
    for (_, changelog), (first, _) in ordered:
        index = subtask_of(first, parallelism, max_parallelism)
        for block in changelog.blocks:
            for change in block.operator_states:
                yield block.state_id, index, change.elements


def _broken(path: str, problem: str) -> BrokenFilesError:
    return BrokenFilesError([coordinator_pb2.BrokenFile(path=path, problem=problem)])
