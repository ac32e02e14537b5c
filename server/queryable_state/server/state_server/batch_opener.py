"""Begins attempts: opens stores at first contact, learns commits and clocks."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import backend_pb2, changes_pb2, coordinator_pb2
from queryable_state.server.state_server.owned_subtask import OwnedSubtask, SubtaskId
from queryable_state.server.state_server.shared_calls import SharedCalls
from queryable_state.wire.errors import InvalidRequestError, PlacementError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.coordinator_link import CoordinatorLink
    from queryable_state.server.state_server.bulk_thread import BulkThread
    from queryable_state.server.state_server.folder import Folder
    from queryable_state.server.state_server.job_stores import JobStores
    from queryable_state.server.state_server.lease import Lease
    from queryable_state.server.state_server.store_factory import StoreFactory
    from queryable_state.server.state_server.store_table import StoreTable
    from queryable_state.v1 import registration_pb2

_log = logging.getLogger(__name__)


class BatchOpener:
    """Answers `Begin`. It reads, and learns what the coordinator knows; it destroys nothing.

    The coordinator is asked once a (query, run, batch), once a subtask, and once an operator's
    states, whoever and however many ask here.
    """

    def __init__(
        self,
        link: CoordinatorLink,
        table: StoreTable,
        lease: Lease,
        bulk: BulkThread,
        stores: StoreFactory,
        folder: Folder,
        *,
        server_id: str,
    ) -> None:
        self._link = link
        self._table = table
        self._lease = lease
        self._bulk = bulk
        self._stores = stores
        self._folder = folder
        self._server_id = server_id
        self._batches: dict[bytes, tuple[object, coordinator_pb2.BeginBatchResponse]] = {}
        self._batch_calls: SharedCalls[coordinator_pb2.BeginBatchResponse] = SharedCalls()
        self._open_calls: SharedCalls[OwnedSubtask] = SharedCalls()
        self._register_calls: SharedCalls[Sequence[registration_pb2.StateRegistration]] = (
            SharedCalls()
        )

    async def begin(self, request: backend_pb2.BeginRequest) -> backend_pb2.BeginResponse:
        """Begins one attempt at a batch; every refusal leaves all as it was."""
        self._lease.check()
        subtask_id = SubtaskId.of(request.subtask)
        if request.batch_id < 0 or len(request.run_id) != 16:
            raise InvalidRequestError(
                f"{subtask_id}: begin of batch {request.batch_id} with a run id of "
                f"{len(request.run_id)} bytes: want a batch from 0 and 16 bytes"
            )
        clocks = await self._batch(request)
        job = self._table.job(subtask_id.query_id)
        if job is not None:
            self._check(job, request.batch_id, clocks)
        subtask = self._table.subtask(subtask_id)
        if subtask is None:
            subtask = await self._open_calls.ask(
                subtask_id, lambda: self._open(subtask_id, request.batch_id, clocks.committed)
            )
        states = await self._registered(subtask, request)
        # No await below: what is checked here still holds when the attempt counts as begun.
        job = self._table.job(subtask_id.query_id)
        if job is None or self._table.subtask(subtask_id) is not subtask:
            raise self._left(subtask_id)
        self._lease.check()
        self._check(job, request.batch_id, clocks)
        subtask.begun.setdefault(request.batch_id, set()).add(
            (clocks.run_epoch, request.task_attempt)
        )
        return backend_pb2.BeginResponse(
            token=changes_pb2.Token(run_epoch=clocks.run_epoch, task_attempt=request.task_attempt),
            batch_timestamp_ms=clocks.batch_timestamp_ms,
            watermark_ms=_watermark(clocks.watermarks_ms, request.operator_depth),
            states=states,
            complete_since_batch=subtask.complete_since_batch,
            sealed_before=request.batch_id in subtask.seals,
        )

    def forget_job(self, query_id: bytes) -> None:
        """Forgets the clocks of a job's newest batch."""
        self._batches.pop(query_id, None)

    def forget_all(self) -> None:
        """Forgets every clock: the coordinator that told them is gone."""
        self._batches.clear()

    async def aclose(self) -> None:
        """Cancels what is under way."""
        for calls in (self._batch_calls, self._open_calls, self._register_calls):
            await calls.aclose()

    def _check(
        self, job: JobStores, batch_id: int, clocks: coordinator_pb2.BeginBatchResponse
    ) -> None:
        job.check_epoch(clocks.run_epoch)
        committed = clocks.committed
        if job.commit(committed.version, committed.commit_time_ms, committed.watermark_ms):
            self._folder.wake()
        job.check_uncommitted(batch_id)

    async def _batch(self, request: backend_pb2.BeginRequest) -> coordinator_pb2.BeginBatchResponse:
        query_id = request.subtask.query_id
        key = (request.run_id, request.batch_id)
        known = self._batches.get(query_id)
        if known is not None and known[0] == key:
            return known[1]
        clocks = await self._batch_calls.ask(
            (query_id, *key),
            lambda: self._link.begin_batch(
                coordinator_pb2.BeginBatchRequest(
                    query_id=query_id,
                    run_id=request.run_id,
                    batch_id=request.batch_id,
                    server_id=self._server_id,
                )
            ),
        )
        self._batches[query_id] = (key, clocks)
        return clocks

    async def _open(
        self, subtask_id: SubtaskId, batch_id: int, committed: coordinator_pb2.QueryVersion
    ) -> OwnedSubtask:
        # The store comes first: what the coordinator has noted as open must exist.
        store = await self._bulk.run(self._stores.new, subtask_id, batch_id - 1)
        try:
            opened = await self._link.open_subtask(
                coordinator_pb2.OpenSubtaskRequest(
                    subtask=subtask_id.to_proto(), server_id=self._server_id, batch_id=batch_id
                )
            )
        except BaseException:
            self._bulk.run(store.destroy)
            raise
        subtask = OwnedSubtask(
            subtask_id, store, opened.placement_version, opened.complete_since_batch
        )
        job = self._table.job_or_new(subtask_id.query_id)
        self._retire(job, subtask_id)
        job.add(subtask)
        job.commit(committed.version, committed.commit_time_ms, committed.watermark_ms)
        _log.log(
            logging.ERROR if opened.complete_since_batch else logging.INFO,
            "opened %s at batch %d, complete since batch %d",
            subtask_id,
            batch_id,
            opened.complete_since_batch,
        )
        return subtask

    def _retire(self, job: JobStores, opened: SubtaskId) -> None:
        """Drops what is left of the operator at another parallelism: nobody writes it any more."""
        retired = [
            subtask
            for subtask in job.subtasks.values()
            if subtask.id.operator_uid == opened.operator_uid
            and subtask.id.parallelism != opened.parallelism
        ]
        for subtask in retired:
            _log.warning("%s is dropped: its operator runs at another parallelism", subtask.id)
            self._table.remove(subtask)
            self._bulk.run(subtask.store.destroy)

    async def _registered(
        self, subtask: OwnedSubtask, request: backend_pb2.BeginRequest
    ) -> Sequence[registration_pb2.StateRegistration]:
        """The operator's states as registered, with room for each in the subtask's store."""
        job = self._table.job(subtask.id.query_id)
        if job is None:
            raise self._left(subtask.id)
        declared = (
            subtask.id.operator_uid,
            tuple(state.SerializeToString(deterministic=True) for state in request.states),
        )
        states = job.registrations.get(declared)
        if states is None:
            states = await self._register_calls.ask(
                (subtask.id.query_id, declared), lambda: self._register(request)
            )
            job.registrations[declared] = states
        for state in states:
            if subtask.states.get(state.state_id) != state:
                await self._bulk.run(subtask.store.add_state, state.state_id)
                if self._table.subtask(subtask.id) is subtask:
                    self._table.add_state(subtask, state)
        return states

    def _left(self, subtask_id: SubtaskId) -> PlacementError:
        return PlacementError(
            f"{subtask_id} left server {self._server_id} while it was begun: locate it anew",
            placement_version=self._lease.placement_version,
        )

    async def _register(
        self, request: backend_pb2.BeginRequest
    ) -> Sequence[registration_pb2.StateRegistration]:
        response = await self._link.register_states(
            coordinator_pb2.RegisterStatesRequest(
                subtask=request.subtask,
                operator_name=request.operator_name,
                operator_depth=request.operator_depth,
                states=request.states,
            )
        )
        return tuple(response.states)


def _watermark(watermarks_ms: Sequence[int], depth: int) -> int:
    """The clock of an operator: that of the batch as many batches ago as it is deep."""
    return watermarks_ms[min(depth, len(watermarks_ms) - 1)] if watermarks_ms else 0
