"""The asyncio client."""

from __future__ import annotations

from queryable_state.client._arguments import Job, job_text
from queryable_state.client._client_base import DEFAULT_PORT, DEFAULT_TIMEOUT_S
from queryable_state.client._listing import JobInfo, StateInfo
from queryable_state.client._lookups import KeyLookups
from queryable_state.v1 import query_pb2

__all__ = ["DEFAULT_PORT", "DEFAULT_TIMEOUT_S", "QueryableStateClient"]


class QueryableStateClient(KeyLookups):
    """Looks up the keyed state of running jobs.

        async with QueryableStateClient("host", 9069) as client:
            state = await client.get_kv_state(job, "lastTemperature", "sensor_1")
            print(state.value(), state.info.version)

    `host` and `port` are those of any proxy or state server of the job. Jobs are
    named by id (32 hex digits, dashes allowed, or a `UUID`), by name, or not at
    all (None) while only one job has the state.

    A client belongs to the event loop it is first used on and is not
    thread-safe; `queryable_state.client.blocking` is. Open one and share it:
    what is asked for in one turn of the loop travels together, so that
    thousands of awaits at a time are the fast case. Queries go to the owner of
    the key once a connection to it is open, and through the given server until
    then or where the owner cannot be reached.

    A query that is refused because state moves, or because a server is gone, is
    asked again until `timeout_s` has passed since the call; then it fails with
    the last refusal, or with `QueryTimeoutError` where nobody answered.

    The client changes nothing in its process. Where single queries must be
    fast, set `GRPC_EXPERIMENTS=-event_engine_client,-event_engine_listener`
    before the first `import grpc` (30 to 40 % off their latency) and run on
    uvloop (10 to 25 %); at many thousands of queries a second,
    `gc.freeze()` and `gc.set_threshold(100_000, 50, 1000)` keep the longest
    answers short.
    """

    async def list_jobs(self, *, timeout_s: float | None = None) -> list[JobInfo]:
        """The jobs the coordinator knows, oldest first."""
        response = await self._dispatcher().peers.list_jobs(
            query_pb2.ListJobsRequest(), timeout_s=self._seconds(timeout_s)
        )
        return [JobInfo.from_proto(job) for job in response.jobs]

    async def list_states(
        self, job: Job = None, *, timeout_s: float | None = None
    ) -> list[StateInfo]:
        """The queryable states of a job, or of all jobs, by job and name."""
        response = await self._dispatcher().peers.list_states(
            query_pb2.ListStatesRequest(job=job_text(job)), timeout_s=self._seconds(timeout_s)
        )
        return [StateInfo.from_proto(state) for state in response.states]
