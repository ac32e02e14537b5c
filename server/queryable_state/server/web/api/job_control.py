"""Operations on jobs for callers with the grant `admin`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, Protocol

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.server.job_names import NamedJob, resolved_job
from queryable_state.server.security.access.caller import caller_of_call
from queryable_state.server.security.access.grants import Kind
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import InvalidRequestError, Reason, UnknownJobError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from queryable_state.server.security.access.gate import Gate

_SAVEPOINT_MS = 600_000


class JobOperations(Protocol):
    """The jobs and what can be done with them; a coordinator is one."""

    async def list_jobs(self, request: query_pb2.ListJobsRequest) -> query_pb2.ListJobsResponse:
        """All jobs."""
        ...

    async def trigger_savepoint(
        self, request: coordinator_pb2.TriggerSavepointRequest, *, timeout_s: float
    ) -> coordinator_pb2.TriggerSavepointResponse:
        """Writes a savepoint and waits for it."""
        ...


class NoOperations:
    """The jobs of a server that only reads them."""

    def __init__(
        self,
        list_jobs: Callable[[query_pb2.ListJobsRequest], Awaitable[query_pb2.ListJobsResponse]],
    ) -> None:
        self._list_jobs = list_jobs

    async def list_jobs(self, request: query_pb2.ListJobsRequest) -> query_pb2.ListJobsResponse:
        """All jobs."""
        return await self._list_jobs(request)

    async def trigger_savepoint(
        self, request: coordinator_pb2.TriggerSavepointRequest, *, timeout_s: float
    ) -> NoReturn:
        """Always raises: a process without a coordinator cannot take savepoints."""
        raise InvalidRequestError(
            "this server reads a checkpoint and has no connection to its job, so it writes no "
            "savepoints: ask the job's own proxy",
            reason=Reason.UNSUPPORTED,
        )


class JobControl:
    """Savepoints, which the coordinator writes."""

    def __init__(self, operations: JobOperations, gate: Gate | None) -> None:
        """`gate`: None lets everyone operate every job."""
        self._operations = operations
        self._gate = gate

    async def savepoint(
        self, job: str, directory: str, *, stop: bool, timeout_ms: int | None
    ) -> coordinator_pb2.TriggerSavepointResponse:
        """Writes a savepoint; with `stop` the job ends first. Waits until it is written.

        Raises `PermissionDeniedError` without the grant, as for a job that does not exist, and
        `CheckpointError` if the savepoint cannot be written.
        """
        request = coordinator_pb2.TriggerSavepointRequest(
            job=await self._allowed(job), directory=directory, stop=stop
        )
        return await self._operations.trigger_savepoint(
            request, timeout_s=(timeout_ms or _SAVEPOINT_MS) / 1000
        )

    async def _allowed(self, job: str) -> str:
        """The id of a job that the caller administers."""
        listed = (await self._operations.list_jobs(query_pb2.ListJobsRequest())).jobs
        jobs = {each.job_id: each for each in listed}
        named = [
            NamedJob(each.job_id, each.name, each.status == registration_pb2.RUNNING)
            for each in sorted(listed, key=lambda each: each.started_at_ms)
        ]
        if self._gate is None:
            return resolved_job(job, named).hex()
        caller = caller_of_call.get()
        denied = self._gate.access.denials
        try:
            job_id = resolved_job(job, named)
        except UnknownJobError:
            if caller.grants.administers("*", ""):
                raise
            raise denied.denied(caller.name, Kind.ADMIN, job, "") from None
        if not caller.grants.administers(jobs[job_id].name, job_id.hex()):
            raise denied.denied(caller.name, Kind.ADMIN, job, "")
        return job_id.hex()
