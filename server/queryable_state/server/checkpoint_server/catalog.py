"""Catalog of the job and states in a checkpoint, in place of the coordinator's."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint_server.checkpoint_loader import PLACEMENT_VERSION
from queryable_state.v1 import query_pb2, registration_pb2, status_pb2
from queryable_state.wire.errors import UnknownJobError, UnknownStateError
from queryable_state.wire.located_state import LocatedState
from queryable_state.wire.operator_state import OPERATOR_KINDS

if TYPE_CHECKING:
    from queryable_state.server.checkpoint.completed import Completed


class CheckpointCatalog:
    """The job of one checkpoint and its queryable states, all owned by one server."""

    def __init__(self, completed: Completed, *, server_id: str) -> None:
        self.address = ""
        """HOST:PORT of the server; set before it serves."""
        self.frames = registration_pb2.FrameEndpoint()
        """The frame port of the server; set before it serves."""
        self._completed = completed
        self._metadata = completed.metadata
        self._states = {
            state.queryable_name: state
            for operator in completed.metadata.operators
            for state in operator.states
            if state.queryable_name
        }
        self._server_id = server_id

    async def locate(self, request: query_pb2.LocateStateRequest) -> LocatedState:
        """Finds a state by job (id or name; empty: this one) and queryable name."""
        self._check_job(request.job)
        registration = self._states.get(request.state_name)
        if registration is None:
            names = sorted(self._states)
            raise UnknownStateError(
                f"no queryable state {request.state_name!r} in {self._completed.uri}; "
                f"{'it has ' + ', '.join(names) if names else 'it has none'}",
                candidates=names,
            )
        owners = [
            registration_pb2.RangeOwner(
                first_key_group=first,
                last_key_group=last,
                server_id=self._server_id,
                address=self.address,
                frames=self.frames,
            )
            for first, last in self._ranges(registration)
        ]
        return LocatedState.of(
            registration_pb2.StateLocation(
                registration=registration, placement_version=PLACEMENT_VERSION, owners=owners
            )
        )

    async def registered(self, state_id: int) -> registration_pb2.StateRegistration:
        """The registration of a state by its id."""
        for state in self._states.values():
            if state.state_id == state_id:
                return state
        raise UnknownStateError(
            f"no queryable state has the id {state_id}: locate it by its name",
        )

    def _ranges(self, state: registration_pb2.StateRegistration) -> list[tuple[int, int]]:
        """The key groups of each owner: one for all, but one a subtask of operator state."""
        if state.kind not in OPERATOR_KINDS:
            return [(0, state.max_parallelism - 1)]
        operators = self._metadata.operators
        [operator] = [operator for operator in operators if operator.uid == state.operator_uid]
        return sorted((part.first_key_group, part.last_key_group) for part in operator.ranges)

    async def list_jobs(self, request: query_pb2.ListJobsRequest) -> query_pb2.ListJobsResponse:
        """Lists the one job, as finished."""
        metadata = self._metadata
        job = registration_pb2.JobInfo(
            job_id=metadata.job_id,
            job_id_hex=metadata.job_id.hex(),
            name=metadata.job_name,
            status=registration_pb2.FINISHED,
            committed_batch=metadata.version,
            states=sorted(self._states),
        )
        return query_pb2.ListJobsResponse(jobs=[job])

    async def list_states(
        self, request: query_pb2.ListStatesRequest
    ) -> query_pb2.ListStatesResponse:
        """Lists its queryable states, by name."""
        self._check_job(request.job)
        return query_pb2.ListStatesResponse(
            states=[self._states[name] for name in sorted(self._states)]
        )

    async def describe_job(
        self, request: status_pb2.DescribeJobRequest
    ) -> status_pb2.JobDescription:
        """Describes the one job as of its checkpoint."""
        self._check_job(request.job)
        metadata = self._metadata
        [info] = (await self.list_jobs(query_pb2.ListJobsRequest())).jobs
        info.health = registration_pb2.JobInfo.ENDED
        return status_pb2.JobDescription(
            info=info,
            watermark=status_pb2.Watermark(watermark_ms=metadata.watermark_ms),
            last_batch=status_pb2.BatchTimes(batch_id=metadata.version, running_batch_id=-1),
            checkpoints=status_pb2.CheckpointStatus(
                root=self._completed.uri,
                last_completed=status_pb2.CheckpointSummary(
                    checkpoint_id=metadata.checkpoint_id,
                    savepoint=metadata.savepoint,
                    outcome=status_pb2.CheckpointSummary.COMPLETED,
                    batch_id=metadata.version,
                    at_ms=metadata.triggered_at_ms,
                    duration_ms=metadata.duration_ms,
                    path=self._completed.uri,
                ),
            ),
            operators=[
                status_pb2.OperatorStatus(
                    uid=operator.uid,
                    states=sorted(s.queryable_name for s in operator.states if s.queryable_name),
                    max_parallelism=operator.max_parallelism,
                    owners=[
                        status_pb2.KeyGroupOwner(
                            last_key_group=operator.max_parallelism - 1,
                            server_id=self._server_id,
                            open=True,
                        )
                    ],
                )
                for operator in metadata.operators
            ],
            as_of_ms=time.time_ns() // 1_000_000,
        )

    async def list_servers(
        self, request: status_pb2.ListServersRequest
    ) -> status_pb2.ListServersResponse:
        """Lists this server."""
        now_ms = time.time_ns() // 1_000_000
        server = status_pb2.ServerStatus(
            server_id=self._server_id,
            host=self.address.rpartition(":")[0],
            query_address=self.address,
            frames=self.frames,
            pid=os.getpid(),
            lease=status_pb2.ServerStatus.HELD,
            renewed_at_ms=now_ms,
        )
        return status_pb2.ListServersResponse(servers=[server], as_of_ms=now_ms)

    def _check_job(self, text: str) -> None:
        job_id, name = self._metadata.job_id.hex(), self._metadata.job_name
        if text and text != name and text.replace("-", "").lower() != job_id:
            label = f"{name} ({job_id})"
            raise UnknownJobError(
                f"this server has no job {text!r}: {self._completed.uri} is of {label}",
                candidates=[label],
            )
