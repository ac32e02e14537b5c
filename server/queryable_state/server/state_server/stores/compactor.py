"""Compaction of committed overlays into the bases of their stores, and their clean-up."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from queryable_state.server.state_server.stores.clean_up import CleanUp

if TYPE_CHECKING:
    from queryable_state.server.state_server.base.background_thread import BackgroundThread
    from queryable_state.server.state_server.stores.job_stores import JobStores
    from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask
    from queryable_state.server.state_server.stores.store_table import StoreTable

_log = logging.getLogger(__name__)


class Compactor:
    """Compacts on the background thread, a chunk at a time, so that fetches run in between.

    A version is compacted once every server has acked it. Until then a client can read a
    consistent snapshot over several servers at the older of their versions.
    """

    def __init__(
        self, table: StoreTable, background: BackgroundThread, *, chunk_records: int
    ) -> None:
        self._table = table
        self._background = background
        self._chunk_records = chunk_records
        self._clean_up = CleanUp(table, background)
        self._wanted = asyncio.Event()

    def wake(self) -> None:
        """Starts a round of compaction, if none runs."""
        self._wanted.set()

    async def run(self) -> None:
        """Compacts whenever woken, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            for job in self._table.jobs():
                for subtask in list(job.subtasks.values()):
                    await self._compact(job, subtask)
                    await self._clean(job, subtask)

    async def compact_to(self, subtask: OwnedSubtask, version: int) -> None:
        """Compacts one store up to a committed version, unless it is beyond it or dropped."""
        more = True
        while more and self._table.subtask(subtask.id) is subtask:
            more = await self._background.run(subtask.store.compact, version, self._chunk_records)

    async def _clean(self, job: JobStores, subtask: OwnedSubtask) -> None:
        try:
            await self._clean_up.run(job, subtask)
        except Exception:  # noqa: BLE001 - other stores are cleaned up nevertheless
            _log.exception("cleaning up expired values of %s failed", subtask.id)

    async def _compact(self, job: JobStores, subtask: OwnedSubtask) -> None:
        more = True
        # Ownership is checked in the turn that enqueues the chunk: a store that leaves the
        # table is closed by a later job of the same thread.
        while more and self._table.subtask(subtask.id) is subtask:
            up_to = min(job.stable_version, job.committed_version, *job.held_versions)
            if up_to <= subtask.store.base_version:
                return
            try:
                more = await self._background.run(subtask.store.compact, up_to, self._chunk_records)
            except Exception:  # noqa: BLE001 - other stores are compacted nevertheless
                # Answers stay correct without compaction; the next commit retries it.
                _log.exception("compacting %s up to batch %d failed", subtask.id, up_to)
                return
