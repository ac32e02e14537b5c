"""Moves committed overlays into the base, behind everything else."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from queryable_state.server.state_server.base.background_thread import BackgroundThread
    from queryable_state.server.state_server.stores.job_stores import JobStores
    from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask
    from queryable_state.server.state_server.stores.store_table import StoreTable

_log = logging.getLogger(__name__)


class Compactor:
    """Folds on the bulk thread, a chunk at a time, so that fetches come in between.

    A version is folded once every server confirmed it: until then neighbours can be asked
    for one cut over the older of two versions.
    """

    def __init__(
        self, table: StoreTable, background: BackgroundThread, *, chunk_records: int
    ) -> None:
        self._table = table
        self._background = background
        self._chunk_records = chunk_records
        self._wanted = asyncio.Event()

    def wake(self) -> None:
        """There may be something to fold."""
        self._wanted.set()

    async def run(self) -> None:
        """Folds whenever woken, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            for job in self._table.jobs():
                for subtask in list(job.subtasks.values()):
                    await self._compact(job, subtask)

    async def compact_to(self, subtask: OwnedSubtask, version: int) -> None:
        """Folds one store up to exactly a committed version, unless it is beyond or dropped."""
        more = True
        while more and self._table.subtask(subtask.id) is subtask:
            more = await self._background.run(subtask.store.compact, version, self._chunk_records)

    async def _compact(self, job: JobStores, subtask: OwnedSubtask) -> None:
        more = True
        # Owned is asked in the turn of the loop that hands the chunk over: a store that left
        # the table is closed by a later job of the same thread.
        while more and self._table.subtask(subtask.id) is subtask:
            up_to = min(job.stable_version, job.committed_version, *job.held_versions)
            if up_to <= subtask.store.base_version:
                return
            try:
                more = await self._background.run(subtask.store.compact, up_to, self._chunk_records)
            except Exception:  # noqa: BLE001 - another store may fold well
                # Answers stay right without folding; the next commit tries again.
                _log.exception("folding %s up to batch %d failed", subtask.id, up_to)
                return
