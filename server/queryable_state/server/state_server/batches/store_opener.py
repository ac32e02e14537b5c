"""Opener of stores: creates, restores and registers the stores of newly owned subtasks."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.server.state_server.restore.restorer import Restored
from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask, SubtaskId
from queryable_state.wire.calls.single_flight import SingleFlight
from queryable_state.wire.errors import PlacementError, SupersededError

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.internal.v1.checkpoint_pb2 import JobStorage, Timeline
    from queryable_state.server.coordinator_client import CoordinatorClient
    from queryable_state.server.state_server.base.background_thread import BackgroundThread
    from queryable_state.server.state_server.base.job_files import JobFiles
    from queryable_state.server.state_server.base.lease import Lease
    from queryable_state.server.state_server.restore.restorer import Restorer
    from queryable_state.server.state_server.stores.store_factory import StoreFactory
    from queryable_state.server.state_server.stores.store_table import StoreTable

_log = logging.getLogger(__name__)

# Generous: the coordinator may have to list a folder of the state root.
_PLAN_TIMEOUT_S = 30.0


class Opening(NamedTuple):
    """The batch before which a store is opened, and the job's durable copy."""

    batch_id: int
    committed: coordinator_pb2.QueryVersion
    storage: JobStorage
    files: JobFiles | None
    """The job's durable copy; None: it has none."""
    timeline: Timeline
    """Of the job's batches."""


class StoreOpener:
    """Creates a store, restores it from the job's durable copy and adds it to the table.

    A restore may take longer than the call that started it: it continues without its caller,
    and the next call for the same subtask and batch joins it. An opening that is superseded,
    by a newer batch or by a coordinator that dropped this server, opens nothing.

    A store that accepts no more writes is replaced: it answers until the new one is open. Without
    a durable copy the new one is copied from it.
    """

    def __init__(
        self,
        coordinator: CoordinatorClient,
        table: StoreTable,
        lease: Lease,
        background: BackgroundThread,
        stores: StoreFactory,
        restorer: Restorer,
        *,
        server_id: str,
        newest_batch: Callable[[bytes], int],
    ) -> None:
        """`newest_batch` returns the newest batch that stores of a query were opened for."""
        self._coordinator = coordinator
        self._table = table
        self._lease = lease
        self._background = background
        self._stores = stores
        self._restorer = restorer
        self._server_id = server_id
        self._newest_batch = newest_batch
        self._generation = 0
        self._calls: SingleFlight[tuple[SubtaskId, int, int], OwnedSubtask] = SingleFlight()

    async def opened(self, subtask_id: SubtaskId, opening: Opening) -> OwnedSubtask:
        """Returns the open subtask; concurrent calls share one opening.

        If the subtask is open already, its store is replaced; if that fails, the subtask goes on
        with the store it has.
        """
        former = self._table.subtask(subtask_id)
        if former is not None and opening.files is None and former.store.staged_version is not None:
            # A copy would lack what is staged: the next batch replaces the store.
            return former
        try:
            return await self._calls.run(
                (subtask_id, opening.batch_id, self._generation),
                lambda: self._open(subtask_id, opening),
            )
        except (PlacementError, SupersededError):
            raise
        except Exception as problem:
            if former is None:
                raise
            _log.error(
                "%s: its store accepts no more writes (%s), and another one cannot be opened: %s. "
                "Its state stays readable, but changes stay in memory and checkpoints fail; the "
                "next batch or checkpoint tries again. Make room on the disk of this executor",
                subtask_id,
                former.store.write_failure(),
                problem,
            )
            return former

    def is_opening(self, query_id: bytes) -> bool:
        """True while a subtask of a query is being opened."""
        return any(subtask_id.query_id == query_id for subtask_id, _, _ in self._calls.running)

    def forget_all(self) -> None:
        """Invalidates openings in progress: this server no longer owns their subtasks."""
        self._generation += 1

    async def aclose(self) -> None:
        """Cancels openings in progress; idempotent."""
        await self._calls.aclose()

    async def _open(self, subtask_id: SubtaskId, opening: Opening) -> OwnedSubtask:
        generation = self._generation
        former = self._table.subtask(subtask_id)
        mark = _mark(former)
        if former is not None:
            _log.warning(
                "%s: its store accepts no more writes and is replaced: %s",
                subtask_id,
                former.store.write_failure(),
            )
        # The store exists before the coordinator records it as open.
        restored = await self._store(subtask_id, opening, former)
        try:
            self._check_current(subtask_id, opening, generation)
            if restored.copy_of is not None:
                opened = coordinator_pb2.OpenSubtaskResponse(
                    placement_version=restored.copy_of.placement_version,
                    complete_since_batch=restored.copy_of.complete_since_batch,
                )
            else:
                opened = await self._noted(subtask_id, opening, restored)
                self._check_current(subtask_id, opening, generation)
            self._check_unchanged(subtask_id, former, mark)
            subtask = OwnedSubtask(
                subtask_id, restored.store, opened.placement_version, opened.complete_since_batch
            )
            job = self._table.job_or_new(subtask_id.query_id)
            job.use(opening.timeline)
            retired = job.superseded_by(subtask)
        except BaseException:
            self._background.run(restored.store.destroy)
            raise
        for other in retired:
            _log.warning("dropping %s: its operator runs at another parallelism", other.id)
        for other in retired if former is None else (*retired, former):
            self._table.remove(other)
            self._background.run(other.store.destroy)
        if restored.history is not None:
            subtask.history = restored.history
        if restored.staged_offsets:
            subtask.offsets[opening.batch_id] = restored.staged_offsets
        if restored.staged is not None:
            subtask.seals[opening.batch_id] = [restored.staged]
        job.add(subtask)
        for state in restored.states:
            self._table.add_state(subtask, state)
        committed = opening.committed
        job.commit(committed.version, committed.commit_time_ms, committed.watermark_ms)
        _log.log(
            logging.ERROR if opened.complete_since_batch else logging.INFO,
            "opened %s at batch %d, complete since batch %d, %s",
            subtask_id,
            opening.batch_id,
            opened.complete_since_batch,
            restored,
        )
        return subtask

    async def _noted(
        self, subtask_id: SubtaskId, opening: Opening, restored: Restored
    ) -> coordinator_pb2.OpenSubtaskResponse:
        """Registers the subtask as open on the coordinator, which confirms the ownership."""
        request = coordinator_pb2.OpenSubtaskRequest(
            subtask=subtask_id.to_proto(),
            server_id=self._server_id,
            batch_id=opening.batch_id,
            restored=restored.planned,
            checkpoint_id=restored.checkpoint_id,
            broken=restored.broken,
            downloaded_bytes=restored.downloaded_bytes,
            reused_bytes=restored.reused_bytes,
            duration_ms=restored.duration_ms,
        )
        while True:
            known = self._lease.placement_version
            opened = await self._coordinator.open_subtask(request)
            # A newer lease received meanwhile could not remove a subtask that is not here yet.
            if self._lease.placement_version <= max(known, opened.placement_version):
                return opened

    async def _store(
        self, subtask_id: SubtaskId, opening: Opening, former: OwnedSubtask | None
    ) -> Restored:
        """Returns a store at the batch before; `former` is the subtask whose store it replaces."""
        if opening.files is not None:
            plan = await self._coordinator.plan_restore(
                coordinator_pb2.PlanRestoreRequest(
                    subtask=subtask_id.to_proto(),
                    server_id=self._server_id,
                    batch_id=opening.batch_id,
                ),
                timeout_s=_PLAN_TIMEOUT_S,
            )
            if plan.durable:
                return await self._restorer.restore(
                    subtask_id, plan, opening.batch_id, opening.files
                )
        if former is not None:
            version = opening.batch_id - 1
            snapshot = await self._background.run(former.store.snapshot, version)
            try:
                return await self._restorer.copy(former, snapshot, opening.storage)
            finally:
                await self._background.run(snapshot.close)
        store = await self._background.run(
            self._stores.new, subtask_id, opening.batch_id - 1, opening.storage
        )
        return Restored(store=store)

    def _check_unchanged(
        self, subtask_id: SubtaskId, former: OwnedSubtask | None, mark: tuple[object, ...]
    ) -> None:
        """Raises if the store to be replaced has sealed, committed or left meanwhile.

        The new store lacks a seal that was acknowledged after the sealed files were listed.
        """
        if self._table.subtask(subtask_id) is not former or _mark(former) != mark:
            raise PlacementError(
                f"{subtask_id} has changed on server {self._server_id} while its store was "
                "replaced: begin again",
                placement_version=self._lease.placement_version,
            )

    def _check_current(self, subtask_id: SubtaskId, opening: Opening, generation: int) -> None:
        """Raises if the restored store may be out of date."""
        self._lease.check()
        if (
            generation != self._generation
            or self._newest_batch(subtask_id.query_id) != opening.batch_id
        ):
            raise PlacementError(
                f"{subtask_id} was opened on server {self._server_id} for batch "
                f"{opening.batch_id}, and superseded meanwhile: begin again",
                placement_version=self._lease.placement_version,
            )


def _mark(subtask: OwnedSubtask | None) -> tuple[object, ...]:
    """What changes with each seal and commit of a store."""
    if subtask is None:
        return ()
    store = subtask.store
    return store.committed_version, store.staged_version, store.staged_token
