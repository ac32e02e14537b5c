"""The asyncio client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from queryable_state.client._arguments import Job, check_name, job_text
from queryable_state.client._client_base import DEFAULT_PORT, DEFAULT_TIMEOUT_S
from queryable_state.client._lookups import KeyLookups
from queryable_state.client._reading.listing import JobInfo, StateInfo
from queryable_state.client._reading.size_estimate import StateMeasure
from queryable_state.client._routing.explain import explained
from queryable_state.client._scans.scan import Scan
from queryable_state.client._scans.scan_range import ALL, ScanRange
from queryable_state.v1 import query_pb2

if TYPE_CHECKING:
    from typing import Unpack

    from queryable_state.client._read_options import ReadOptions
    from queryable_state.client._reading.connection_info import ConnectionInfo
    from queryable_state.client._reading.explanation import Explanation

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

    def scan(
        self,
        job: Job,
        state_name: str,
        *,
        start: Any = ALL,
        end: Any = ALL,
        prefix: Any = ALL,
        limit: int | None = None,
        page_token: bytes = b"",
        allow_newer: bool = False,
        keys_only: bool = False,
        **options: Unpack[ReadOptions],
    ) -> Scan:
        """The keys of a state with their states, as of one committed batch.

        Args:
            job: As of `get_kv_state`, like all options not said here.
            state_name: The queryable name.
            start: From this key on, in the order of keys within each key group.
            end: Before this key.
            prefix: Keys that begin so: of a string or binary its beginning, of a
                row or tuple its first fields. Not with `start` and `end`.
            limit: At most so many keys; what follows is behind `page_token`.
            page_token: Of an earlier scan of the same keys: behind its page, as of its batch.
            allow_newer: Where that batch is gone, go on as of the newest one, instead of
                `VersionGoneError`; `is_newer` says so.
            keys_only: No states.
            timeout_s: Seconds until the next page must be there, not for them all.

        Nothing is asked for before the first page is taken; then also refusals are
        raised, but for arguments that can be of no scan.
        """
        keys = ScanRange(start, end, prefix, limit, page_token, keys_only, allow_newer)
        return Scan(self._dispatcher(), self._batcher(job, state_name, options), keys)

    async def measure(
        self, job: Job, state_name: str, *, timeout_s: float | None = None
    ) -> StateMeasure:
        """About how many records and bytes a state holds, and where."""
        check_name(state_name)
        request = query_pb2.MeasureStateRequest(job=job_text(job), state_name=state_name)
        response = await self._dispatcher().pool.measure_state(
            request, timeout_s=self._seconds(timeout_s)
        )
        return StateMeasure.from_proto(response)

    async def explain(
        self, job: Job, state_name: str, key: Any, **options: Unpack[ReadOptions]
    ) -> Explanation:
        """The answer to one key, and how it came about: owner, hops, caches, retries, times.

        Takes the same way as `get_kv_state`; arguments as there. That nothing is
        stored under the key, and what a server refuses, stands in the explanation.
        """
        batcher = self._batcher(job, state_name, options)
        return await explained(self._dispatcher(), batcher, key)

    def connections(self) -> tuple[ConnectionInfo, ...]:
        """How look-ups go to each server now, the given one first; nothing is asked for that."""
        return self._dispatcher().pool.connections()

    async def describe_state(
        self, job: Job, state_name: str, *, timeout_s: float | None = None
    ) -> StateInfo:
        """What is registered of one state: its kind and types; arguments as of `get_kv_state`."""
        check_name(state_name)
        dispatcher = self._dispatcher()
        deadline = asyncio.get_running_loop().time() + self._seconds(timeout_s)
        handle = dispatcher.locator.handle(job_text(job), state_name)
        located = await dispatcher.locator.located(handle, deadline)
        return StateInfo.from_proto(located.registration)

    async def list_jobs(self, *, timeout_s: float | None = None) -> list[JobInfo]:
        """The jobs the coordinator knows, oldest first."""
        response = await self._dispatcher().pool.list_jobs(
            query_pb2.ListJobsRequest(), timeout_s=self._seconds(timeout_s)
        )
        return [JobInfo.from_proto(job) for job in response.jobs]

    async def list_states(
        self, job: Job = None, *, timeout_s: float | None = None
    ) -> list[StateInfo]:
        """The queryable states of a job, or of all jobs, by job and name."""
        response = await self._dispatcher().pool.list_states(
            query_pb2.ListStatesRequest(job=job_text(job)), timeout_s=self._seconds(timeout_s)
        )
        return [StateInfo.from_proto(state) for state in response.states]
