"""Assignment and opening of single subtasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.internal.v1 import backend_pb2, coordinator_pb2

if TYPE_CHECKING:
    from queryable_state.server.coordinator.model.engine import QueryInfo
    from queryable_state.server.coordinator.model.operators import Opening
    from queryable_state.server.coordinator.model.servers import Server
    from queryable_state.server.coordinator.model.state import CoordinatorState


class Subtasks:
    """Assigns subtasks and records that their owners opened them. Thread-safe, no I/O."""

    def __init__(self, state: CoordinatorState) -> None:
        self._state = state

    def reachable_owner(
        self, request: coordinator_pb2.AssignSubtaskRequest
    ) -> backend_pb2.LocateSubtaskResponse | None:
        """The owner of a subtask; None if one must be assigned, which needs Spark's answers."""
        state = self._state
        subtask = request.subtask
        with state.transaction() as now:
            operator = state.placement.operator(subtask.query_id, subtask.operator_uid)
            if operator is None or (operator.parallelism, operator.max_parallelism) != (
                subtask.parallelism,
                subtask.max_parallelism,
            ):
                return None
            server = state.placement.reachable_owner(
                operator, subtask.index, request.not_server_id, now
            )
            return None if server is None else self._located(server)

    def assign(
        self, request: coordinator_pb2.AssignSubtaskRequest, info: QueryInfo, executors: int
    ) -> backend_pb2.LocateSubtaskResponse:
        """The owner of a subtask, assigned if it has none."""
        state = self._state
        subtask = request.subtask
        with state.transaction() as now:
            requester = state.servers.get(request.server_id)
            job = state.enter(subtask.query_id, info)
            operator = state.placement.declare(
                subtask.query_id,
                subtask.operator_uid,
                subtask.parallelism,
                subtask.max_parallelism,
                job.run.run_id,
            )
            server = state.placement.reachable_owner(
                operator, subtask.index, request.not_server_id, now
            )
            if server is None:
                server = state.placement.assign(operator, subtask.index, requester, executors, now)
            return self._located(server)

    def open(
        self,
        request: coordinator_pb2.OpenSubtaskRequest,
        info: QueryInfo,
        durable_since: int | None,
    ) -> tuple[coordinator_pb2.OpenSubtaskResponse, Opening]:
        """Records that the owner has opened its store before a batch begins.

        `durable_since` is the batch since which the job's root is complete; None: the job has no
        root, and the store is empty.
        """
        state = self._state
        subtask, batch_id = request.subtask, request.batch_id
        with state.transaction():
            server = state.servers.get(request.server_id)
            job = state.enter(subtask.query_id, info)
            operator = state.operator_of(subtask, server.server_id)
            first_batch = state.contact(job, batch_id)
            at = (operator, subtask.index, server.server_id, batch_id)
            if durable_since is None:
                opening = state.placement.open_empty(*at, first_batch)
            else:
                opening = state.placement.open_restored(*at, durable_since)
            # The store is at the version before the batch.
            state.commits.ack(job.query_id, server.server_id, batch_id - 1)
            response = coordinator_pb2.OpenSubtaskResponse(
                placement_version=state.placement.version,
                complete_since_batch=opening.complete_since,
            )
            return response, opening

    def describe(self, subtask: backend_pb2.Subtask) -> str:
        """A subtask for people: job, operator, index."""
        state = self._state
        with state.transaction():
            job = state.jobs.find(subtask.query_id)
            operator = state.states.operator_name(subtask.query_id, subtask.operator_uid)
            label = job.label if job else subtask.query_id.hex()
            return f"job {label}, operator {operator}, subtask {subtask.index}"

    def _located(self, server: Server) -> backend_pb2.LocateSubtaskResponse:
        return backend_pb2.LocateSubtaskResponse(
            placement_version=self._state.placement.version,
            server_id=server.server_id,
            address=server.backend_address,
        )
