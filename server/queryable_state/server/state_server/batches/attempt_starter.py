"""Start of task attempts: opens stores at first contact and learns commits and clocks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from queryable_state.internal.v1 import backend_pb2, changes_pb2, coordinator_pb2
from queryable_state.server.state_server.batches.store_opener import Opening, StoreOpener
from queryable_state.server.state_server.stores.due_timers import (
    due_query,
    first_due,
    timer_state,
)
from queryable_state.server.state_server.stores.job_stores import OperatorStates
from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask, SubtaskId
from queryable_state.v1 import registration_pb2
from queryable_state.wire.calls.single_flight import SingleFlight
from queryable_state.wire.errors import InvalidRequestError, PlacementError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.internal.v1.checkpoint_pb2 import JobStorage
    from queryable_state.server.coordinator_client import CoordinatorClient
    from queryable_state.server.state_server.base.background_thread import BackgroundThread
    from queryable_state.server.state_server.base.job_files import FileSystems, JobFiles
    from queryable_state.server.state_server.base.lease import Lease
    from queryable_state.server.state_server.restore.restorer import Restorer
    from queryable_state.server.state_server.stores.compactor import Compactor
    from queryable_state.server.state_server.stores.job_stores import JobStores
    from queryable_state.server.state_server.stores.store_factory import StoreFactory
    from queryable_state.server.state_server.stores.store_table import StoreTable


class RunningBatch(NamedTuple):
    """The coordinator's clocks of a batch, and access to the job's files."""

    key: tuple[bytes, int]
    """Run and batch id."""
    clocks: coordinator_pb2.BeginBatchResponse
    files: JobFiles | None

    def watermark_ms(self, depth: int) -> int:
        """The watermark of an operator at a depth: that of the batch `depth` batches ago."""
        watermarks_ms = self.clocks.watermarks_ms
        return watermarks_ms[min(depth, len(watermarks_ms) - 1)] if watermarks_ms else 0


class AttemptStarter:
    """Serves `Begin` and `OpenSubtasks`.

    Concurrent calls share their requests to the coordinator: one for each (query, run, batch),
    one for each subtask and one for the states of each operator.
    """

    def __init__(
        self,
        coordinator: CoordinatorClient,
        table: StoreTable,
        lease: Lease,
        background: BackgroundThread,
        stores: StoreFactory,
        restorer: Restorer,
        file_systems: FileSystems,
        compactor: Compactor,
        *,
        server_id: str,
    ) -> None:
        self._coordinator = coordinator
        self._table = table
        self._lease = lease
        self._background = background
        self._file_systems = file_systems
        self._compactor = compactor
        self._server_id = server_id
        self._batches: dict[bytes, RunningBatch] = {}
        self._newest: dict[bytes, int] = {}
        self._opener = StoreOpener(
            coordinator,
            table,
            lease,
            background,
            stores,
            restorer,
            server_id=server_id,
            newest_batch=self._newest_batch,
        )
        self._batch_calls: SingleFlight[tuple[bytes, bytes, int], RunningBatch] = SingleFlight()
        self._register_calls: SingleFlight[
            tuple[bytes, str, tuple[bytes, ...]], Sequence[registration_pb2.StateRegistration]
        ] = SingleFlight()

    async def report_failed(
        self, request: backend_pb2.FailedAttempt
    ) -> backend_pb2.ReportFailedAttemptResponse:
        """Tells the coordinator that an attempt at a task fails."""
        return await self._coordinator.report_failed_attempt(request)

    async def begin(self, request: backend_pb2.BeginRequest) -> backend_pb2.BeginResponse:
        """Begins one attempt at a batch; a refusal changes nothing."""
        self._lease.check()
        subtask_id = SubtaskId.of(request.subtask)
        if request.batch_id < 0 or len(request.run_id) != 16:
            raise InvalidRequestError(
                f"{subtask_id}: begin of batch {request.batch_id} with a run id of "
                f"{len(request.run_id)} bytes: the batch must be at least 0, the run id 16 bytes"
            )
        batch = await self._batch(request)
        clocks = batch.clocks
        job = self._table.job(subtask_id.query_id)
        if job is not None:
            self._check(job, request.batch_id, clocks)
        subtask = self._table.writable(subtask_id)
        if subtask is None:
            subtask = await self._opener.opened(
                subtask_id,
                Opening(
                    request.batch_id,
                    clocks.committed,
                    clocks.storage,
                    batch.files,
                    clocks.timeline,
                ),
            )
        states = await self._registered(subtask, request)
        # No await below, so the checks still hold when the attempt is begun.
        job = self._table.job(subtask_id.query_id)
        if job is None or self._table.subtask(subtask_id) is not subtask:
            raise self._left(subtask_id)
        self._lease.check()
        self._check(job, request.batch_id, clocks)
        job.settings, job.files = clocks.storage, batch.files
        job.begin_batch(request.batch_id, clocks.batch_timestamp_ms)
        subtask.discard_other_offsets(request.batch_id, clocks.offsets_digest)
        subtask.begin_attempt(
            request.batch_id,
            (clocks.run_epoch, request.task_attempt),
            clocks.offsets_digest,
            request.execution,
        )
        response = backend_pb2.BeginResponse(
            token=changes_pb2.Token(run_epoch=clocks.run_epoch, task_attempt=request.task_attempt),
            batch_timestamp_ms=clocks.batch_timestamp_ms,
            watermark_ms=batch.watermark_ms(request.operator_depth),
            states=states,
            complete_since_batch=subtask.complete_since_batch,
            sealed_before=subtask.store.staged_version == request.batch_id,
        )
        timers = timer_state(states)
        if timers is not None:
            query = due_query(response.batch_timestamp_ms, response.watermark_ms)
            due = self._background.run(
                first_due, subtask.store, request.batch_id - 1, timers, query
            )
            response.due.CopyFrom(await due)
        return response

    async def open_subtasks(self, request: backend_pb2.OpenSubtasksRequest) -> None:
        """Opens subtasks at the batch before `batch_id`: all of them, or raises.

        Open subtasks stay as they are, unless their store accepts no more writes. Opening
        continues if the caller is cancelled, and the next call for the same subtasks joins it.
        """
        self._lease.check()
        query_id, batch_id = request.query_id, request.batch_id
        wanted = [SubtaskId.of(subtask) for subtask in request.subtasks]
        if batch_id < 1 or any(subtask.query_id != query_id for subtask in wanted):
            raise InvalidRequestError(
                f"cannot open subtasks of job {query_id.hex()} before batch {batch_id}: the batch "
                "must be at least 1, and all subtasks must belong to this job"
            )
        files = await self._files(query_id, request.storage)
        self._newest[query_id] = max(batch_id, self._newest_batch(query_id))
        committed = coordinator_pb2.QueryVersion(
            query_id=query_id,
            version=batch_id - 1,
            commit_time_ms=request.commit_time_ms,
            watermark_ms=request.watermark_ms,
        )
        opening = Opening(batch_id, committed, request.storage, files, request.timeline)
        outcomes = await asyncio.gather(
            *(
                self._opener.opened(subtask, opening)
                for subtask in wanted
                if self._table.writable(subtask) is None
            ),
            return_exceptions=True,
        )
        job = self._table.job(query_id)
        if job is not None and job.files is None:
            job.settings, job.files = request.storage, files
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def replace_failed(self, query_id: bytes) -> None:
        """Replaces the stores of a job that accept no more writes, if they can be replaced now."""
        job = self._table.job(query_id)
        subtasks = () if job is None else job.subtasks.values()
        failed = [subtask for subtask in subtasks if subtask.store.write_failure()]
        if job is None or not failed:
            return
        await self.open_subtasks(
            backend_pb2.OpenSubtasksRequest(
                query_id=query_id,
                batch_id=job.committed_version + 1,
                subtasks=[subtask.id.to_proto() for subtask in failed],
                storage=job.settings,
                timeline=job.timeline,
                commit_time_ms=job.info.commit_time_ms,
                watermark_ms=job.info.watermark_ms,
            )
        )

    def is_opening(self, query_id: bytes) -> bool:
        """True while a subtask of a job is being opened."""
        return self._opener.is_opening(query_id)

    def forget_job(self, query_id: bytes) -> None:
        """Removes the cached clocks of a job."""
        self._batches.pop(query_id, None)
        self._newest.pop(query_id, None)

    def forget_all(self) -> None:
        """Removes all cached clocks: their coordinator has been replaced."""
        self._batches.clear()
        self._newest.clear()
        self._opener.forget_all()

    async def aclose(self) -> None:
        """Cancels pending work; idempotent."""
        for calls in (self._batch_calls, self._opener, self._register_calls):
            await calls.aclose()

    def _newest_batch(self, query_id: bytes) -> int:
        """Returns the newest batch that stores of a query were opened for; -1: none."""
        return self._newest.get(query_id, -1)

    def _check(
        self, job: JobStores, batch_id: int, clocks: coordinator_pb2.BeginBatchResponse
    ) -> None:
        job.check_epoch(clocks.run_epoch)
        committed = clocks.committed
        if job.commit(committed.version, committed.commit_time_ms, committed.watermark_ms):
            self._compactor.wake()
        job.check_uncommitted(batch_id)

    async def _batch(self, request: backend_pb2.BeginRequest) -> RunningBatch:
        query_id = request.subtask.query_id
        key = (request.run_id, request.batch_id)
        known = self._batches.get(query_id)
        if known is not None and known.key == key:
            return known
        batch = await self._batch_calls.run(
            (query_id, *key), lambda: self._asked(query_id, key, request.config_id)
        )
        self._batches[query_id] = batch
        self._newest[query_id] = request.batch_id
        return batch

    async def _asked(self, query_id: bytes, key: tuple[bytes, int], config_id: str) -> RunningBatch:
        clocks = await self._coordinator.begin_batch(
            coordinator_pb2.BeginBatchRequest(
                query_id=query_id,
                run_id=key[0],
                batch_id=key[1],
                server_id=self._server_id,
                config_id=config_id,
            )
        )
        return RunningBatch(key, clocks, await self._files(query_id, clocks.storage))

    async def _files(self, query_id: bytes, storage: JobStorage) -> JobFiles | None:
        job = self._table.job(query_id)
        files = None if job is None else job.files
        if files is None or files.settings != storage:
            files = await self._file_systems.of_job(storage)
        return files

    async def _registered(
        self, subtask: OwnedSubtask, request: backend_pb2.BeginRequest
    ) -> Sequence[registration_pb2.StateRegistration]:
        """Registers the operator's states and adds each to the subtask's store."""
        job = self._table.job(subtask.id.query_id)
        if job is None:
            raise self._left(subtask.id)
        uid = subtask.id.operator_uid
        declared = tuple(state.SerializeToString(deterministic=True) for state in request.states)
        known = job.registrations.get(uid)
        if known is not None and known.declared == declared:
            states = known.states
        else:
            states = await self._register_calls.run(
                (subtask.id.query_id, uid, declared), lambda: self._register(request)
            )
            job.registrations[uid] = OperatorStates(declared, states)
        for state in states:
            if subtask.states.get(state.state_id) != state:
                await self._background.run(
                    subtask.store.add_state,
                    state.state_id,
                    timers=state.kind == registration_pb2.TIMER,
                )
                if self._table.subtask(subtask.id) is subtask:
                    self._table.add_state(subtask, state)
        return states

    def _left(self, subtask_id: SubtaskId) -> PlacementError:
        return PlacementError(
            f"{subtask_id} left server {self._server_id} during begin: locate its owner again",
            placement_version=self._lease.placement_version,
        )

    async def _register(
        self, request: backend_pb2.BeginRequest
    ) -> Sequence[registration_pb2.StateRegistration]:
        response = await self._coordinator.register_states(
            coordinator_pb2.RegisterStatesRequest(
                subtask=request.subtask,
                operator_name=request.operator_name,
                operator_depth=request.operator_depth,
                states=request.states,
            )
        )
        return tuple(response.states)
