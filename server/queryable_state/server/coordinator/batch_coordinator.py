"""Batch lifecycle on the coordinator: assignments, restores, begins and registrations."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import backend_pb2, coordinator_pb2
from queryable_state.server.coordinator.model.jobs import check_id
from queryable_state.wire.calls.retrying import RetryPolicy, retrying_blocking
from queryable_state.wire.errors import (
    InvalidRequestError,
    JobError,
    QueryableStateError,
    Reason,
    RetryLaterError,
    SupersededError,
    UnknownJobError,
)
from queryable_state.wire.keys.key_groups import key_group_range
from queryable_state.wire.next_step import NextStep

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from queryable_state.internal.v1 import checkpoint_pb2
    from queryable_state.server.coordinator.batches.batches import Batches
    from queryable_state.server.coordinator.batches.catalog import Catalog
    from queryable_state.server.coordinator.batches.commit_publisher import CommitPublisher
    from queryable_state.server.coordinator.batches.run_operators import RunOperators
    from queryable_state.server.coordinator.model.engine import BatchClocks, Engine, QueryInfo
    from queryable_state.server.coordinator.recovery.restore_plans import RestorePlans
    from queryable_state.server.coordinator.recovery.run_binder import RunBinder
    from queryable_state.server.coordinator.roots.fencing import Fencing
    from queryable_state.server.coordinator.roots.job_roots import JobRoot, JobRoots
    from queryable_state.server.coordinator.servers.subtasks import Subtasks
    from queryable_state.server.coordinator.status.job_facts import FactTable

_log = logging.getLogger(__name__)

# Longest wait of a begin; a server gives up after 5 s, and begins again.
_MANIFEST_S = 3.0
_RETRY_MS = 100
_CONTINUED_RETRIES = RetryPolicy(
    steps=frozenset({NextStep.RETRY_SAME, NextStep.LOCATE_AGAIN, NextStep.WAIT}),
    first_delay_s=0.05,
    longest_delay_s=1.0,
)


class BatchCoordinator:
    """Asks Spark outside of transactions, then changes the coordinator's state. Thread-safe."""

    def __init__(
        self,
        engine: Engine,
        run_binder: RunBinder,
        fencing: Fencing,
        roots: JobRoots,
        plans: RestorePlans,
        subtasks: Subtasks,
        batches: Batches,
        operators: RunOperators,
        catalog: Catalog,
        publisher: CommitPublisher,
        facts: FactTable,
        *,
        settle_timeout_s: float,
    ) -> None:
        self._engine = engine
        self._run_binder = run_binder
        self._fencing = fencing
        self._roots = roots
        self._plans = plans
        self._subtasks = subtasks
        self._batches = batches
        self._operators = operators
        self._catalog = catalog
        self._publisher = publisher
        self._facts = facts
        self._settle_timeout_s = settle_timeout_s

    def assign_subtask(
        self, request: coordinator_pb2.AssignSubtaskRequest
    ) -> backend_pb2.LocateSubtaskResponse:
        """The owner of a subtask, assigned if it has none."""
        _check_subtask(request.subtask)
        owner = self._subtasks.reachable_owner(request)
        if owner is not None:
            return owner
        info = self._query(request.subtask.query_id)
        return self._subtasks.assign(request, info, self._live_executors())

    def plan_restore(
        self, request: coordinator_pb2.PlanRestoreRequest
    ) -> checkpoint_pb2.RestorePlan:
        """The restore plan for the owner of a subtask."""
        _check_subtask(request.subtask)
        _check_batch(request.batch_id)
        return self._plans.plan(request, self._query(request.subtask.query_id))

    def open_subtask(
        self, request: coordinator_pb2.OpenSubtaskRequest
    ) -> coordinator_pb2.OpenSubtaskResponse:
        """Records that the owner has opened its store, restored or empty; logs lost state."""
        _check_subtask(request.subtask)
        _check_batch(request.batch_id)
        info = self._query(request.subtask.query_id)
        root = self._roots.of(request.subtask.query_id)
        if root is not None and not request.restored:
            raise RetryLaterError(
                f"the state of job {info.name!r} is kept in {root.uri}: a store is loaded by a "
                "plan before it is opened"
            )
        self._tell_broken(request, root)
        durable_since = None if root is None else root.complete_since
        response, opening = self._subtasks.open(request, info, durable_since)
        if opening.lost:
            subtask = request.subtask
            first, last = key_group_range(
                subtask.index, subtask.parallelism, subtask.max_parallelism
            )
            _log.error(
                "STATE_LOST: %s (key groups %d to %d): what was stored before batch %d went with "
                "the server that held it, and there is no durable copy; the query goes on, and "
                "lookups in this range fail unless they allow incomplete answers",
                self._subtasks.describe(subtask),
                first,
                last,
                opening.complete_since,
            )
        return response

    def begin_batch(
        self, request: coordinator_pb2.BeginBatchRequest
    ) -> coordinator_pb2.BeginBatchResponse:
        """Clocks, epoch and newest commit of a batch.

        Answers after the push of the batch before, so that a server learns of a
        commit by its push and has its seals reported.
        """
        query_id, batch_id = check_id(request.query_id, "query_id"), request.batch_id
        check_id(request.run_id, "run_id")
        _check_batch(batch_id)
        info = self._query(query_id)
        _check_run(info, request)
        if not self._run_binder.is_bound(query_id, request.run_id):
            self._run_binder.bind(request, info, lambda: _check_run(self._query(query_id), request))
        self._fencing.check_batch(query_id, batch_id)
        clocks = self._clocks(query_id, info, batch_id)
        if self._batches.begin(request, info, clocks):
            self._publisher.announce(query_id)
        epoch, storage, timeline = self._run_binder.run(query_id, request.run_id)
        if storage.root:
            self._await_manifest(query_id, batch_id - 1)
        else:
            self._batches.wait_published(query_id, batch_id - 1, self._settle_timeout_s)
        return self._batches.begun(request, epoch, storage, timeline)

    def continued(
        self, query_id: bytes, batch_id: int, config_id: str, timeout_s: float
    ) -> AbstractSet[str]:
        """The uids of the operators with state from before a batch of the newest run.

        With durable state these are the operators that a restore would read; without it those that
        servers have opened for an earlier batch. The answer depends only on the batches before, so
        it is the same in each run of the batch, also after a crash: what an uncommitted run of the
        batch has sealed does not count. Begins the batch, as its first task does: then the run is
        bound to its root, and the batch before is written down as committed. Blocking; raises the
        refusal of the run if it cannot continue from its root.
        """

        def attempt() -> AbstractSet[str]:
            info = self._engine.query(query_id)
            if info is None:
                raise UnknownJobError(f"no streaming query {query_id.hex()} runs in this driver")
            self.begin_batch(
                coordinator_pb2.BeginBatchRequest(
                    query_id=query_id,
                    run_id=info.run_id,
                    batch_id=batch_id,
                    config_id=config_id,
                )
            )
            root = self._roots.of(query_id)
            if root is not None:
                return root.stored_uids(batch_id - 1)
            return self._operators.opened_before(query_id, batch_id)

        return retrying_blocking(
            attempt, _CONTINUED_RETRIES, deadline_s=time.monotonic() + timeout_s
        )

    def register_states(
        self, request: coordinator_pb2.RegisterStatesRequest
    ) -> coordinator_pb2.RegisterStatesResponse:
        """Registers all states of an operator, or none of them."""
        _check_subtask(request.subtask)
        query_id = request.subtask.query_id
        info = self._query(query_id)
        states = self._catalog.register_states(request, info, self._roots.of(query_id))
        return coordinator_pb2.RegisterStatesResponse(states=states)

    def _await_manifest(self, query_id: bytes, batch_id: int) -> None:
        """What follows a batch that is not durably committed could not be told from it."""
        timeout_s = max(self._settle_timeout_s, _MANIFEST_S)
        if not self._batches.wait_published(query_id, batch_id, timeout_s):
            raise RetryLaterError(
                f"batch {batch_id} of query {query_id.hex()} is not yet written down as committed",
                retry_after_ms=_RETRY_MS,
            )

    def _tell_broken(
        self, request: coordinator_pb2.OpenSubtaskRequest, root: JobRoot | None
    ) -> None:
        loaded_from = (
            f"checkpoint {request.checkpoint_id} and the changelogs after it"
            if request.checkpoint_id
            else "all its changelogs, or the savepoint it started from"
        )
        for broken in request.broken:
            self._facts.file_damaged(request.subtask.query_id, broken.path, broken.problem)
            _log.error(
                "%s: %s cannot be used (%s); the state was loaded from %s in %s",
                self._subtasks.describe(request.subtask),
                broken.path,
                broken.problem,
                loaded_from,
                root.uri if root else "no root",
            )

    def _query(self, query_id: bytes) -> QueryInfo:
        info = self._engine.query(query_id)
        if info is None:
            known = [view.job_id for view in self._catalog.list_jobs()]
            raise UnknownJobError(
                f"no streaming query {query_id.hex()} runs in this driver: a task of another "
                "application must use the coordinator of its own driver",
                candidates=known,
            )
        return info

    def _clocks(self, query_id: bytes, info: QueryInfo, batch_id: int) -> dict[int, BatchClocks]:
        clocks: dict[int, BatchClocks] = {}
        for batch in self._batches.missing_clocks(query_id, info, batch_id):
            try:
                clocks[batch] = self._engine.clocks(query_id, batch)
            except QueryableStateError as failure:
                if batch == batch_id:
                    raise
                _log.info("watermarks of %s begin at batch %d: %s", info.name, batch + 1, failure)
                break
        return clocks

    def _live_executors(self) -> int:
        try:
            return self._engine.live_executors()
        except QueryableStateError as failure:
            _log.info("the executors are not known now: %s", failure)
            return 1


def _check_run(info: QueryInfo, request: coordinator_pb2.BeginBatchRequest) -> None:
    if info.run_id != request.run_id:
        raise SupersededError(
            f"query {request.query_id.hex()}: batch {request.batch_id} is of run "
            f"{request.run_id.hex()}, and run {info.run_id.hex()} has taken over"
        )


def _check_subtask(subtask: backend_pb2.Subtask) -> None:
    check_id(subtask.query_id, "query_id")
    if not subtask.operator_uid:
        raise InvalidRequestError("the subtask names no operator: operator_uid is empty")
    key_group_range(subtask.index, subtask.parallelism, subtask.max_parallelism)


def _check_batch(batch_id: int) -> None:
    if batch_id < 0:
        raise JobError(
            f"batch {batch_id}: a stateful operator runs in the batches of a streaming query only, "
            "and those count from 0",
            reason=Reason.MISSING_BATCH_ID,
        )
