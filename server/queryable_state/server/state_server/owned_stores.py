"""The stores that this server owns: commits, lost ownership and dropped jobs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from queryable_state.server.state_server.stores.owned_subtask import SubtaskId

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from queryable_state.internal.v1 import backend_pb2, coordinator_pb2
    from queryable_state.server.state_server.base.background_thread import BackgroundThread
    from queryable_state.server.state_server.base.local_copies import LocalCopies
    from queryable_state.server.state_server.batches.attempt_starter import AttemptStarter
    from queryable_state.server.state_server.stores.compactor import Compactor
    from queryable_state.server.state_server.stores.job_stores import JobStores
    from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask
    from queryable_state.server.state_server.stores.owner_table import OwnerTable
    from queryable_state.server.state_server.stores.store_table import StoreTable

_log = logging.getLogger(__name__)


class OwnedStores:
    """Commits jobs and drops subtasks. For the event loop only; stores close in background."""

    def __init__(
        self,
        table: StoreTable,
        background: BackgroundThread,
        compactor: Compactor,
        opener: AttemptStarter,
        owners: OwnerTable,
        copies: LocalCopies,
    ) -> None:
        self._table = table
        self._background = background
        self._compactor = compactor
        self._opener = opener
        self._owners = owners
        self._copies = copies

    def sealed(self, query_id: bytes, version: int) -> list[backend_pb2.SealedSubtask]:
        """Returns the seals of a job's uncommitted batches up to a version."""
        job = self._table.job(query_id)
        return [] if job is None else job.sealed_up_to(version)

    def commit(
        self, committed: backend_pb2.CommitRequest | coordinator_pb2.QueryVersion
    ) -> list[backend_pb2.SealedSubtask]:
        """Commits a job up to a batch; returns the seals committed since the last call."""
        job = self._learn(committed)
        return [] if job is None else job.take_reports()

    def _learn(
        self, committed: backend_pb2.CommitRequest | coordinator_pb2.QueryVersion
    ) -> JobStores | None:
        job = self._table.job(committed.query_id)
        if job is None:
            return None
        job.commit(committed.version, committed.commit_time_ms, committed.watermark_ms)
        if committed.stable_version > job.stable_version:
            job.stable_version = committed.stable_version
        self._compactor.wake()
        return job

    async def drop_job(self, query_id: bytes) -> None:
        """Drops a job with all its state, staged and committed; idempotent."""
        subtasks = self._table.remove_job(query_id)
        self._opener.forget_job(query_id)
        self._owners.forget_job(query_id)
        if subtasks:
            _log.info("dropped job %s with %d subtasks", query_id.hex(), len(subtasks))
        for closing in self._close(subtasks):
            await closing
        await self._background.run(self._copies.forget_job, query_id)

    def take_lease(self, lease: coordinator_pb2.Lease, *, newly_registered: bool) -> bool:
        """Applies a lease: commits what it says is committed, drops what it no longer grants.

        Returns True if a subtask was dropped. With `newly_registered` the coordinator did not know
        this server before, so it owns only what the lease grants; otherwise subtasks that were
        opened after the lease was granted are kept.
        """
        for committed in lease.committed:
            self._learn(committed)
        owned = {SubtaskId.of(subtask) for subtask in lease.owned}
        lost = [
            subtask
            for subtask in self._table.subtasks()
            if subtask.id not in owned
            and (newly_registered or subtask.placement_version <= lease.placement_version)
        ]
        for subtask in lost:
            _log.warning("dropping the store of %s: this server no longer owns it", subtask.id)
            self._table.remove(subtask)
        if newly_registered:
            self._opener.forget_all()
            self._owners.forget_all()
        for job in self._table.jobs():
            # Openings in progress are newer than the dropped subtasks, and continue.
            if not job.subtasks and not self._opener.is_opening(job.query_id):
                self._table.remove_job(job.query_id)
                self._opener.forget_job(job.query_id)
        self._close(lost)
        return bool(lost)

    async def aclose(self) -> None:
        """Closes every store; local copies stay for the executor's next server."""
        for job in self._table.jobs():
            for closing in self._close(self._table.remove_job(job.query_id)):
                await closing

    def _close(self, subtasks: Iterable[OwnedSubtask]) -> list[Awaitable[None]]:
        """Enqueues the closing of stores, after the jobs that still read them."""
        return [self._background.run(subtask.store.destroy) for subtask in subtasks]
