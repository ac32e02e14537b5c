"""The asyncio client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from queryable_state.client._arguments import DEFAULT_PORT, Job, check_name, job_text
from queryable_state.client._client_base import DEFAULT_TIMEOUT_S
from queryable_state.client._operator_lookups import OperatorLookups
from queryable_state.client._reading.hot_keys import HotKeys
from queryable_state.client._reading.listing import JobInfo, StateInfo
from queryable_state.client._reading.operation import SCAN
from queryable_state.client._reading.size_estimate import StateMeasure
from queryable_state.client._routing.explain import explained
from queryable_state.client._scans.scan import Scan
from queryable_state.client._scans.scan_range import ALL, ScanRange
from queryable_state.client._timed_lookups import TimedLookups
from queryable_state.v1 import hot_keys_pb2, query_pb2
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from typing import Unpack

    from queryable_state.client._read_options import ReadOptions
    from queryable_state.client._reading.connection_info import ConnectionInfo
    from queryable_state.client._reading.explanation import Explanation

__all__ = ["DEFAULT_PORT", "DEFAULT_TIMEOUT_S", "QueryableStateClient"]


class QueryableStateClient(OperatorLookups, TimedLookups):
    """Client for the state of running jobs.

        async with QueryableStateClient("host", 9069) as client:
            state = await client.get_kv_state(job, "lastTemperature", "sensor_1")
            print(state.value(), state.info.version)

    `host` and `port` are the address of any proxy or state server of the job; `addresses`
    names several (`addresses=["proxy-1:9069", "proxy-2:9069"]`), of which the client asks
    one and moves to the next when it is lost. A job
    is given by its id (32 hex digits, dashes allowed, or a `UUID`), by its name, or
    as None if only one job has the state.

    A client belongs to the event loop on which it is first used. It is not
    thread-safe; the client of `queryable_state.client.blocking` is. Open one client
    and share it: it batches all lookups of one turn of the loop, so it is fastest
    with thousands of concurrent lookups. It sends a query to the owner of the key
    once a connection to the owner is open. Until then, or if the owner is
    unreachable, it sends the query to the given server.

    The client retries a query that fails because state moves or a server is
    unreachable, until `timeout_s` has passed since the call. The query then fails
    with the error of the last attempt, or with `QueryTimeoutError` if no server
    has answered. If nothing listens at any address on the first call, it fails at once
    with `NothingListensError`.

    The client changes no settings of its process. To reduce the latency of single
    queries, set `GRPC_EXPERIMENTS=-event_engine_client,-event_engine_listener`
    before the first `import grpc` (30 to 40 % less) and use uvloop (10 to 25 %
    less). With many thousands of queries per second, `gc.freeze()` and
    `gc.set_threshold(100_000, 50, 1000)` reduce the tail latency.
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
        """Returns a scan of the keys of a state with their states, all from one committed batch.

        Args:
            job: Same as in `get_kv_state`, like all options not listed here.
            state_name: Queryable name of the state.
            start: First key, inclusive, in key order within each key group.
            end: Last key, exclusive.
            prefix: Only keys with this prefix: the beginning of a string or binary key, or the
                first fields of a row or tuple key. Not together with `start` or `end`.
            limit: Maximum number of keys, or of their windows; `page_token` of the scan then
                continues behind them.
            page_token: Token of an earlier scan of the same keys: continue behind its last
                page, at the same batch.
            allow_newer: If that batch is compacted, continue at the newest one instead of
                raising `VersionGoneError`; `Scan.is_newer` is then True.
            keys_only: Return no states.
            window: Of a state with windows only this one; None: every window of each key.
            timeout_s: Maximum seconds for each page, not for the whole scan.

        Raises `InvalidRequestError` for invalid arguments. The scan sends its first request
        when its first page is read; reading raises the errors of `get_kv_state` and
        `VersionGoneError`.
        """
        keys = ScanRange(start, end, prefix, limit, page_token, keys_only, allow_newer)
        return Scan(self._dispatcher(), self._batcher(job, state_name, options, SCAN), keys)

    async def measure(
        self, job: Job, state_name: str, *, timeout_s: float | None = None
    ) -> StateMeasure:
        """Counts the keys, records and bytes of a state, in total and for each subtask.

        Large states are estimated; the answer has the error of that. Fails after
        `timeout_s` seconds (None: the client's timeout). Raises `UnknownJobError`,
        `UnknownStateError` or `AmbiguousJobError` if the name does not match exactly one state.
        """
        check_name(state_name)
        request = query_pb2.MeasureStateRequest(job=job_text(job), state_name=state_name)
        response = await self._dispatcher().pool.measure_state(
            request, timeout_s=self._seconds(timeout_s)
        )
        return StateMeasure.from_proto(response)

    async def hot_keys(
        self,
        job: Job,
        state_name: str | None = None,
        *,
        limit: int = 10,
        timeout_s: float | None = None,
    ) -> HotKeys:
        """Returns the keys that queries and tasks touched most often in the last minute.

        Args:
            job: Same as in `get_kv_state`.
            state_name: Queryable name of the state; None: all keyed states of the job.
            limit: Maximum keys for each state and side, 1 to 1000.
            timeout_s: Seconds until the call fails; None: the client's timeout.

        Needs the grant `scan` of the state. Raises the errors of `describe_state`, and
        `InvalidRequestError` for an invalid limit.
        """
        if not 1 <= limit <= 1000:
            raise InvalidRequestError(f"limit must be 1 to 1000, not {limit}")
        if state_name is not None:
            check_name(state_name)
        response = await self._dispatcher().pool.list_hot_keys(
            hot_keys_pb2.ListHotKeysRequest(
                job=job_text(job), state_name=state_name or "", limit=limit
            ),
            timeout_s=self._seconds(timeout_s),
        )
        return HotKeys.from_proto(response)

    async def explain(
        self, job: Job, state_name: str, key: Any, **options: Unpack[ReadOptions]
    ) -> Explanation:
        """Looks up one key and explains the lookup: owner, hops, caches, retries, times.

        Takes the same route as `get_kv_state`, with the same arguments. If nothing is stored
        under the key or a server refuses the query, the error is part of the explanation.
        Raises only errors that occur before a query is sent.
        """
        batcher = self._batcher(job, state_name, options)
        return await explained(self._dispatcher(), batcher, key)

    def connections(self) -> tuple[ConnectionInfo, ...]:
        """Returns the transport to each server, the given one first. Sends no request."""
        return self._dispatcher().pool.connections()

    async def describe_state(
        self, job: Job, state_name: str, *, timeout_s: float | None = None
    ) -> StateInfo:
        """Returns the registered kind and types of one state.

        Arguments and errors as in `get_kv_state`.
        """
        check_name(state_name)
        dispatcher = self._dispatcher()
        deadline = asyncio.get_running_loop().time() + self._seconds(timeout_s)
        handle = dispatcher.locator.handle(job_text(job), state_name)
        located = await dispatcher.locator.located(handle, deadline)
        return StateInfo.from_proto(located.registration)

    async def list_jobs(self, *, timeout_s: float | None = None) -> list[JobInfo]:
        """Lists the jobs that the coordinator knows, oldest first.

        Fails after `timeout_s` seconds (None: the client's timeout) with `QueryTimeoutError`, or
        with the error of the last attempt.
        """
        response = await self._dispatcher().pool.list_jobs(
            query_pb2.ListJobsRequest(), timeout_s=self._seconds(timeout_s)
        )
        return [JobInfo.from_proto(job) for job in response.jobs]

    async def list_states(
        self, job: Job = None, *, timeout_s: float | None = None
    ) -> list[StateInfo]:
        """Lists the queryable states of a job (None: of all jobs), sorted by job and name.

        Fails after `timeout_s` seconds (None: the client's timeout). Raises `UnknownJobError`
        if there is no such job.
        """
        response = await self._dispatcher().pool.list_states(
            query_pb2.ListStatesRequest(job=job_text(job)), timeout_s=self._seconds(timeout_s)
        )
        return [StateInfo.from_proto(state) for state in response.states]
