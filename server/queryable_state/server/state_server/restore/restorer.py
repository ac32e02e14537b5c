"""Restore of a subtask's store from the state root of its job."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.server.metrics.restore_counts import RestoreCounts
from queryable_state.server.state_server.restore.changelog_replay import ChangelogReplay
from queryable_state.server.state_server.restore.source_load import SourceLoad
from queryable_state.server.state_server.restore.stored_files import (
    BrokenFilesError,
    StoredFiles,
    describe,
)
from queryable_state.server.storage.store import NOTHING_COMMITTED
from queryable_state.v1 import registration_pb2
from queryable_state.wire.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from queryable_state.internal.v1.checkpoint_pb2 import JobStorage, RestorePlan, RestoreSource
    from queryable_state.server.state_server.base.job_files import FileSystems, JobFiles
    from queryable_state.server.state_server.base.local_copies import LocalCopies
    from queryable_state.server.state_server.base.thread_pool import ThreadPool
    from queryable_state.server.state_server.restore.operator_lists import OperatorLists
    from queryable_state.server.state_server.stores.owned_subtask import (
        OwnedSubtask,
        SealMark,
        SubtaskId,
    )
    from queryable_state.server.state_server.stores.store_factory import StoreFactory
    from queryable_state.server.state_server.watches.change_history import ChangeHistory
    from queryable_state.server.storage.snapshot import StoreSnapshot
    from queryable_state.server.storage.store import StateStore


class RestoreState:
    """Progress of one restore: bytes that are read of those that its plan needs."""

    def __init__(self, subtask_id: SubtaskId, plan: RestorePlan, stored: StoredFiles) -> None:
        self._id = subtask_id
        self._plan = plan
        self._stored = stored
        self._started_at_ms = time.time_ns() // 1_000_000
        self._before_bytes = 0
        self.bytes = _plan_bytes(plan, plan.sources[0] if plan.sources else None)
        """Bytes of all files."""
        self.replayed_bytes: Callable[[], int] = int
        """Bytes of changelogs that are read."""

    def begins(self, source: RestoreSource | None) -> None:
        """The restore begins to load a source; None: it starts empty."""
        self._before_bytes = self._stored.downloaded_bytes + self._stored.reused_bytes
        self.bytes = _plan_bytes(self._plan, source)

    def progress(self) -> coordinator_pb2.RunningRestore:
        """The progress now."""
        read = self._stored.downloaded_bytes + self._stored.reused_bytes - self._before_bytes
        return coordinator_pb2.RunningRestore(
            subtask=self._id.to_proto(),
            started_at_ms=self._started_at_ms,
            bytes_done=min(self.bytes, read + self.replayed_bytes()),
            bytes=self.bytes,
        )


class RunningRestores:
    """The restores that go on. For the event loop."""

    def __init__(self) -> None:
        self._running: set[RestoreState] = set()

    @contextmanager
    def running(
        self, subtask_id: SubtaskId, plan: RestorePlan, stored: StoredFiles
    ) -> Iterator[RestoreState]:
        """Counts a restore while the block lasts."""
        state = RestoreState(subtask_id, plan, stored)
        self._running.add(state)
        try:
            yield state
        finally:
            self._running.discard(state)

    def progress(self) -> list[coordinator_pb2.RunningRestore]:
        """The progress of each restore now."""
        return [state.progress() for state in self._running]


def _plan_bytes(plan: RestorePlan, source: RestoreSource | None) -> int:
    """Bytes of the files of a source, and of the changelogs after it."""
    after = -1 if source is None else source.version
    changelogs = sum(file.size_bytes for file in plan.changelogs if file.batch_id > after)
    ranges = () if source is None else source.ranges
    return changelogs + sum(
        stored.size_bytes for part in ranges for stored in part.files if stored.path
    )


_CHUNK_RECORDS = 1024


def copy_into(
    store: StateStore,
    snapshot: StoreSnapshot,
    states: Iterable[registration_pb2.StateRegistration],
) -> StateStore:
    """Fills a new store, which is at the version of the snapshot, and returns it.

    `states` are the states of the operator. For any one thread; destroys a store it cannot fill.
    """
    try:
        for state in states:
            store.add_state(state.state_id, timers=state.kind == registration_pb2.TIMER)
        with store.bulk_load() as load:
            for state_id in snapshot.state_ids():
                store.add_state(state_id)
                records = snapshot.records(state_id)
                while chunk := list(islice(records, _CHUNK_RECORDS)):
                    load.put(state_id, chunk)
        store.load_operator_states(snapshot.operator_states())
    except BaseException:
        store.destroy()
        raise
    return store


_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Restored:
    """A restored store that is not shared yet, and the source of its state."""

    store: StateStore
    planned: bool = False
    """True if the store was loaded by a restore plan; False if it starts empty."""

    copy_of: OwnedSubtask | None = None
    """The subtask whose store on this server was copied; None: the store is not a copy."""

    states: Sequence[registration_pb2.StateRegistration] = field(default=())
    """The stored states that the plan or the former store has; the store has each of them."""

    staged: SealMark | None = None
    """The seal of the staged version, if a single attempt at this subtask wrote it."""

    staged_offsets: bytes = b""
    """Digest of the offsets of the staged version; empty: nothing is staged."""

    history: ChangeHistory | None = None
    """The changes of the newest batches; None: they are not known."""

    checkpoint_id: int = 0
    """The checkpoint the store starts from; 0: none."""

    location: str = ""
    """URI of the checkpoint or savepoint the store starts from; empty: none."""

    broken: Sequence[coordinator_pb2.BrokenFile] = field(default=())
    """Unusable files of newer checkpoints."""

    downloaded_bytes: int = 0
    reused_bytes: int = 0
    duration_ms: int = 0

    def __str__(self) -> str:
        if self.copy_of is not None:
            return "copied from its former store"
        if not self.planned:
            return "starting empty"
        return (
            f"restored from {self.location or 'the first batch'} in {self.duration_ms} ms "
            f"({self.downloaded_bytes} bytes read, {self.reused_bytes} of its own copies)"
        )


class Restorer:
    """Loads the newest intact source of a plan, then replays the changelogs after it.

    Files are transferred and loaded on threads, so that fetches, prepares and queries of
    other subtasks continue. A store whose restore fails is destroyed.
    """

    def __init__(
        self,
        stores: StoreFactory,
        file_systems: FileSystems,
        copies: LocalCopies,
        threads: ThreadPool,
        scratch: Path,
    ) -> None:
        self._stores = stores
        self._file_systems = file_systems
        self._copies = copies
        self._threads = threads
        self._scratch = scratch
        self.counts = RestoreCounts()
        self.running = RunningRestores()

    async def restore(
        self, subtask_id: SubtaskId, plan: RestorePlan, batch_id: int, files: JobFiles
    ) -> Restored:
        """Returns the store at the version before `batch_id`, with the sealed changes of it staged.

        Raises `CheckpointError` naming the broken or missing files that the state needs, and
        `RetryLaterError` if the storage does not answer now.
        """
        try:
            restored = await self._restored(subtask_id, plan, batch_id, files)
        except Exception:
            self.counts.failed += 1
            raise
        self.counts.durations.add(restored.duration_ms / 1000)
        self.counts.downloaded_bytes += restored.downloaded_bytes
        self.counts.reused_bytes += restored.reused_bytes
        return restored

    async def copy(
        self, subtask: OwnedSubtask, snapshot: StoreSnapshot, settings: JobStorage
    ) -> Restored:
        """Returns a new store with the records of a snapshot of the subtask's store."""
        return Restored(
            store=await self._threads.run(self._copied, subtask, snapshot, settings),
            copy_of=subtask,
            states=tuple(subtask.states.values()),
            history=subtask.history,
        )

    def _copied(
        self, subtask: OwnedSubtask, snapshot: StoreSnapshot, settings: JobStorage
    ) -> StateStore:
        store = self._stores.new(subtask.id, snapshot.version, settings)
        return copy_into(store, snapshot, tuple(subtask.states.values()))

    async def _restored(
        self, subtask_id: SubtaskId, plan: RestorePlan, batch_id: int, files: JobFiles
    ) -> Restored:
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        scratch = self._scratch / uuid.uuid4().hex
        await self._threads.run(scratch.mkdir, parents=True)
        stack = contextlib.ExitStack()
        try:
            stored = StoredFiles(subtask_id.query_id, self._copies, scratch)
            state = stack.enter_context(self.running.running(subtask_id, plan, stored))
            broken: list[coordinator_pb2.BrokenFile] = []
            store, lists, source = await self._start(subtask_id, plan, files, stored, broken, state)
            try:
                replay = ChangelogReplay(
                    subtask_id, store, lists, files, self._threads, states=plan.states
                )
                state.replayed_bytes = lambda: replay.read_bytes
                after = NOTHING_COMMITTED if source is None else source.version
                try:
                    await replay.apply(plan.changelogs, after, batch_id - 1)
                except BrokenFilesError as failure:
                    raise _not_restorable(subtask_id, [*broken, *failure.files]) from failure
                staged = await replay.stage(plan.staged, batch_id)
            except BaseException:
                await self._destroy(store)
                raise
            if broken:
                _log.error(
                    "%s falls back to %s: %s", subtask_id, _location(source), describe(broken)
                )
            return Restored(
                store=store,
                planned=True,
                states=plan.states,
                staged=staged,
                staged_offsets=replay.staged_offsets,
                history=replay.history,
                checkpoint_id=0 if source is None else source.checkpoint_id,
                location="" if source is None else _location(source),
                broken=broken,
                downloaded_bytes=stored.downloaded_bytes + replay.read_bytes,
                reused_bytes=stored.reused_bytes,
                duration_ms=round((loop.time() - begun_s) * 1000),
            )
        finally:
            stack.close()
            # Not awaited, so that a cancelled restore removes its links to large files, too.
            self._threads.run(shutil.rmtree, scratch, ignore_errors=True)

    async def _start(
        self,
        subtask_id: SubtaskId,
        plan: RestorePlan,
        files: JobFiles,
        stored: StoredFiles,
        broken: list[coordinator_pb2.BrokenFile],
        state: RestoreState,
    ) -> tuple[StateStore, OperatorLists, RestoreSource | None]:
        """Returns a store loaded from the newest intact source, or an empty one if allowed."""
        load = SourceLoad(subtask_id, plan, files.settings, self._stores, stored, self._threads)
        for source in plan.sources:
            state.begins(source)
            at = files
            if source.root and source.root.rstrip("/") != files.root.rstrip("/"):
                at = await self._file_systems.at(source.root, files.settings)
            try:
                store, lists = await load.source(source, at)
            except BrokenFilesError as failure:
                _log.warning("%s cannot use %s: %s", subtask_id, _location(source), failure)
                broken += failure.files
            else:
                return store, lists, source
        if not plan.from_first_batch:
            raise _not_restorable(subtask_id, broken)
        state.begins(None)
        store, lists = await load.nothing()
        return store, lists, None

    async def _destroy(self, store: StateStore) -> None:
        try:
            await self._threads.run(store.destroy)
        except Exception:  # noqa: BLE001 - the failure of the restore is the one to report
            _log.exception("a store whose restore failed cannot be removed")


def _location(source: RestoreSource | None) -> str:
    if source is None:
        return "the first batch"
    return source.location or f"checkpoint {source.checkpoint_id}"


def _not_restorable(
    subtask_id: SubtaskId, broken: Sequence[coordinator_pb2.BrokenFile]
) -> CheckpointError:
    return CheckpointError(
        f"{subtask_id} cannot be restored: no checkpoint is intact together with the changelogs "
        f"after it: {describe(broken) or 'there is none'}. Restore the files from a backup of the "
        "state root, or start the job from a savepoint"
    )
