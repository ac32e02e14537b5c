"""Placement of an idle run: the subtasks that are not open, and the servers to open them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.internal.v1 import backend_pb2
from queryable_state.wire.errors import RetryLaterError, SupersededError

if TYPE_CHECKING:
    from queryable_state.server.coordinator.model.engine import QueryInfo
    from queryable_state.server.coordinator.model.operators import Operator
    from queryable_state.server.coordinator.model.servers import Server
    from queryable_state.server.coordinator.model.state import CoordinatorState
    from queryable_state.server.coordinator.recovery.idle_run import IdleRun
    from queryable_state.server.coordinator.roots.job_roots import JobRoot


class IdlePlacement:
    """Finds and assigns the subtasks of runs between two batches. Thread-safe, no I/O."""

    def __init__(self, state: CoordinatorState) -> None:
        self._state = state

    def is_missing(self, run: IdleRun) -> bool:
        """Whether a subtask is not open, and no batch of the run is about to open it."""
        state = self._state
        with state.transaction():
            job = state.jobs.find(run.query_id)
            if job is not None and job.run.begun > state.commits.version(run.query_id):
                return False
            if not run.confirmed:
                return True
            for wanted in run.operators:
                operator = state.placement.operator(run.query_id, wanted.uid)
                if operator is None or operator.parallelism != wanted.parallelism:
                    return True
                if any(not self._is_open(operator, index) for index in range(wanted.parallelism)):
                    return True
        return False

    def requests(
        self, run: IdleRun, info: QueryInfo, root: JobRoot, version: int, executors: int
    ) -> dict[str, backend_pb2.OpenSubtasksRequest]:
        """The subtasks each server has to open, by its address; assigns those without an owner.

        Until the owners have confirmed the run, its open subtasks are included: an owner leaves
        a store that is open as it is. Empty if a batch of the run has begun.
        """
        state, query_id = self._state, run.query_id
        requests: dict[str, backend_pb2.OpenSubtasksRequest] = {}
        with state.transaction() as now:
            job = state.enter(query_id, info)
            if job.run.run_id != run.run_id:
                raise SupersededError(f"job {job.label} has a newer run")
            if job.run.begun > version:
                return {}
            state.contact(job, version + 1)
            if job.run.first_batch is None:
                # Operators that only an earlier run had are not restored.
                state.placement.drop_query(query_id, but=run.uids)
                state.states.serve(query_id, run.uids)
            committed = state.commits.published_version(query_id)
            if committed is None or committed.version != version:
                raise RetryLaterError(f"job {job.label} is committing")
            for wanted in run.operators:
                operator = state.placement.declare(
                    query_id,
                    wanted.uid,
                    wanted.parallelism,
                    wanted.max_parallelism,
                    run.run_id,
                )
                for index in range(operator.parallelism):
                    if run.confirmed and self._is_open(operator, index):
                        continue
                    server = self._owner(operator, index, executors, now)
                    request = requests.setdefault(
                        server.backend_address,
                        backend_pb2.OpenSubtasksRequest(
                            query_id=query_id,
                            batch_id=version + 1,
                            commit_time_ms=committed.commit_time_ms,
                            watermark_ms=committed.watermark_ms,
                            storage=root.job_storage(),
                            timeline=root.timeline,
                        ),
                    )
                    request.subtasks.add(
                        query_id=query_id,
                        operator_uid=operator.uid,
                        index=index,
                        parallelism=operator.parallelism,
                        max_parallelism=operator.max_parallelism,
                    )
        return requests

    def _is_open(self, operator: Operator, index: int) -> bool:
        owned = operator.subtasks.get(index)
        opened = owned is not None and owned.opened
        return opened and self._state.placement.owner(operator, index) is not None

    def _owner(self, operator: Operator, index: int, executors: int, now_ms: int) -> Server:
        """The owner of a subtask; a subtask without one goes to the least loaded server."""
        state = self._state
        owner = state.placement.owner(operator, index)
        if owner is not None:
            return owner
        holding = state.servers.holding(now_ms)
        if not holding:
            raise RetryLaterError("no state server holds a lease")
        requester = min(holding, key=lambda server: len(operator.owned_by(server.server_id)))
        return state.placement.assign(operator, index, requester, executors, now_ms)
