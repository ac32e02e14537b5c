"""Loader of the state of a checkpoint into local stores."""

from __future__ import annotations

import asyncio
import shutil
import time
import uuid
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.internal.v1.checkpoint_pb2 import JobStorage, RestorePlan, RestoreSource
from queryable_state.server.checkpoint.timelines import timeline_of
from queryable_state.server.state_server.base.job_files import JobFiles
from queryable_state.server.state_server.base.local_copies import LocalCopies
from queryable_state.server.state_server.base.thread_pool import ThreadPool
from queryable_state.server.state_server.restore.source_load import SourceLoad
from queryable_state.server.state_server.restore.stored_files import (
    BrokenFilesError,
    StoredFiles,
    raise_first_or_all_broken,
)
from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask, SubtaskId
from queryable_state.server.state_server.stores.store_factory import StoreFactory
from queryable_state.server.state_server.stores.store_table import StoreTable
from queryable_state.v1 import query_pb2, status_pb2
from queryable_state.wire.errors import CheckpointError
from queryable_state.wire.keys.key_groups import key_group_range

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.internal.v1.checkpoint_pb2 import OperatorSnapshot, RangeSnapshot
    from queryable_state.server.checkpoint.completed import Completed
    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage
    from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings

# The one owner never changes.
PLACEMENT_VERSION = 1


class CheckpointLoader:
    """Fills a table of stores from one checkpoint, in folders under `directory`.

    `aclose` closes the stores and removes their files; idempotent.
    """

    def __init__(
        self,
        settings: CheckpointServerSettings,
        storage: CheckpointStorage,
        directory: Path,
        server_id: str,
    ) -> None:
        self._settings = settings
        self._storage = storage
        self._directory = directory
        self._server_id = server_id
        self._stack = AsyncExitStack()
        self._loads: _Loads | None = None

    def progress(self) -> list[status_pb2.RestoreProgress]:
        """How far each subtask is now, without the server; empty before `load` knows the files."""
        return [] if self._loads is None else self._loads.progress()

    async def load(self, completed: Completed) -> StoreTable:
        """Loads the stores of every operator with queryable states.

        Raises CheckpointError with the files' names if the checkpoint is damaged.
        """
        metadata = completed.metadata
        table = StoreTable(self._server_id)
        job = table.job_or_new(metadata.job_id)
        job.info = query_pb2.ReadInfo(
            version=metadata.version,
            commit_time_ms=metadata.commit_time_ms,
            watermark_ms=metadata.watermark_ms,
            role=query_pb2.CHECKPOINT,
            server_id=self._server_id,
            checkpoint=completed.uri,
        )
        job.use(timeline_of(metadata.job_id, metadata.timeline))
        async with AsyncExitStack() as stack:
            threads = ThreadPool("loading", self._settings.transfer_threads)
            transfers = ThreadPool("transfers", self._settings.transfer_threads)
            for pool in (threads, transfers):
                stack.push_async_callback(pool.aclose)
            scratch = self._directory / "scratch"
            await threads.run(scratch.mkdir, parents=True)
            stack.push_async_callback(asyncio.to_thread, shutil.rmtree, scratch, ignore_errors=True)
            loads = _Loads(self._settings, self._storage, self._directory, threads, transfers)
            self._loads = loads
            self._stack.callback(loads.stores.remove_all)
            parts_to_load = [
                (operator, part)
                for operator in metadata.operators
                if any(state.queryable_name for state in operator.states)
                for part in _whole(operator, completed)
            ]
            for operator, part in parts_to_load:
                loads.expect(operator, part)
            results = await asyncio.gather(
                *(loads.subtask(completed, operator, part) for operator, part in parts_to_load),
                return_exceptions=True,
            )
            for subtask in results:
                if isinstance(subtask, OwnedSubtask):
                    self._stack.push_async_callback(asyncio.to_thread, subtask.store.destroy)
            try:
                raise_first_or_all_broken(results)
            except BrokenFilesError as broken:
                raise CheckpointError(f"{completed.uri} is damaged: {broken}") from broken
        for (operator, _), subtask in zip(parts_to_load, results, strict=True):
            if isinstance(subtask, OwnedSubtask):
                job.add(subtask)
                for state in operator.states:
                    if state.queryable_name:
                        table.add_state(subtask, state)
        return table

    async def aclose(self) -> None:
        """Closes the stores and removes their files."""
        await self._stack.aclose()


class _Loads:
    """Loads subtasks of one checkpoint into stores."""

    def __init__(
        self,
        settings: CheckpointServerSettings,
        storage: CheckpointStorage,
        directory: Path,
        threads: ThreadPool,
        transfers: ThreadPool,
    ) -> None:
        self.stores = StoreFactory("heap", directory / "stores")
        self._backend = settings.backend
        self._transfer_threads = settings.transfer_threads
        self._storage = storage
        self._scratch = directory / "scratch"
        self._threads = threads
        self._transfers = transfers
        self._parts: dict[tuple[str, int], _Part] = {}

    def expect(self, operator: OperatorSnapshot, part: RangeSnapshot) -> None:
        """Counts a subtask that will be loaded."""
        self._parts[operator.uid, part.index] = _Part(part, time.time_ns() // 1_000_000)

    def progress(self) -> list[status_pb2.RestoreProgress]:
        """How far each subtask is that is not loaded yet."""
        return [part.progress(uid) for (uid, _), part in self._parts.items() if not part.is_loaded]

    async def subtask(
        self, completed: Completed, operator: OperatorSnapshot, part: RangeSnapshot
    ) -> OwnedSubtask:
        metadata = completed.metadata
        subtask_id = SubtaskId(
            metadata.job_id,
            operator.uid,
            part.index,
            operator.parallelism,
            operator.max_parallelism,
        )
        settings = JobStorage(
            root=completed.root,
            backend=self._backend or metadata.backend,
            transfer_threads=self._transfer_threads,
        )
        folder = self._scratch / uuid.uuid4().hex
        await self._threads.run(folder.mkdir)
        stored = StoredFiles(metadata.job_id, LocalCopies(self._scratch / "copies"), folder)
        progress = self._parts[operator.uid, part.index]
        progress.stored = stored
        load = SourceLoad(
            subtask_id,
            RestorePlan(states=operator.states),
            settings,
            self.stores,
            stored,
            self._threads,
        )
        source = RestoreSource(
            checkpoint_id=metadata.checkpoint_id,
            version=metadata.version,
            ranges=[part],
            root=completed.root,
            location=completed.uri,
        )
        files = JobFiles(completed.root, settings, self._storage, self._transfers)
        store, lists = await load.source(source, files)
        await self._threads.run(store.load_operator_states, lists.of(part.index))
        progress.is_loaded = True
        return OwnedSubtask(subtask_id, store, PLACEMENT_VERSION, metadata.complete_since_batch)


@dataclass(eq=False)
class _Part:
    """A subtask that is loaded, and the files that it reads."""

    part: RangeSnapshot
    started_at_ms: int
    stored: StoredFiles | None = None
    is_loaded: bool = False

    def progress(self, operator_uid: str) -> status_pb2.RestoreProgress:
        stored = self.stored
        read = 0 if stored is None else stored.downloaded_bytes + stored.reused_bytes
        total = sum(file.size_bytes for file in self.part.files if file.path)
        return status_pb2.RestoreProgress(
            operator_uid=operator_uid,
            first_key_group=self.part.first_key_group,
            last_key_group=self.part.last_key_group,
            started_at_ms=self.started_at_ms,
            bytes_done=min(read, total),
            bytes=total,
        )


def _whole(operator: OperatorSnapshot, completed: Completed) -> list[RangeSnapshot]:
    """The snapshots of all subtasks by index; raises CheckpointError if one is missing."""
    parts = sorted(operator.ranges, key=lambda part: part.index)
    ranges = [(part.index, part.first_key_group, part.last_key_group) for part in parts]
    expected = [
        (index, *key_group_range(index, operator.parallelism, operator.max_parallelism))
        for index in range(operator.parallelism)
    ]
    if ranges != expected:
        raise CheckpointError(
            f"{completed.uri} lacks the state of some of the {operator.parallelism} subtasks of "
            f"operator {operator.uid!r}: use another checkpoint"
        )
    return parts
