"""The asyncio client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from queryable_state.client._arguments import (
    DEFAULT_PORT,
    Job,
    check_hot_keys_limit,
    check_name,
    checked_timeout,
    job_text,
)
from queryable_state.client._client_base import DEFAULT_TIMEOUT_S
from queryable_state.client._lookups import Lookups
from queryable_state.client._queries.explain import explained
from queryable_state.client._reading.hot_keys import HotKeys
from queryable_state.client._reading.listing import JobInfo, StateInfo
from queryable_state.client._reading.operation import SCAN
from queryable_state.client._reading.size_estimate import StateMeasure
from queryable_state.client._scans.scan import ALL, Scan, ScanRange
from queryable_state.client._status.job_description import JobDescription
from queryable_state.client._status.server_status import ServerStatus
from queryable_state.client._watches.watch import Watch
from queryable_state.client._watches.watch_streams import WatchStreams
from queryable_state.client._watches.watched_keys import WatchedKeys
from queryable_state.v1 import hot_keys_pb2, query_pb2, status_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Unpack

    from queryable_state.client._read_options import ReadOptions
    from queryable_state.client._reading.connection_info import ConnectionInfo
    from queryable_state.client._reading.explanation import Explanation

__all__ = ["DEFAULT_PORT", "DEFAULT_TIMEOUT_S", "QueryableStateClient"]


class QueryableStateClient(Lookups):
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

    def watch(
        self,
        job: Job,
        state_name: str,
        *,
        keys: Iterable[Any] | None = None,
        prefix: Any = ALL,
        after_batch: int | None = None,
        reconnect_timeout_s: float = 300.0,
        key_type: object = None,
        descriptor: object = None,
        timeout_s: float | None = None,
    ) -> Watch:
        """Returns a watch: every committed change of a state once, in the order of batches.

        Args:
            job: Same as in `get_kv_state`.
            state_name: Queryable name of the state.
            keys: Only these keys, at most 4,096. None, and no prefix: every key.
            prefix: Only keys with this prefix, as in `scan`.
            after_batch: Changes of later batches; -1: of all batches. The servers keep a bounded
                history: what they do not have any more is returned as a GAP. None: of the batches
                that are committed after the watch was opened.
            reconnect_timeout_s: Seconds for which an open watch looks for a server before it
                raises the error of the last attempt.
            key_type: As in `get_kv_state`, like `descriptor`.
            timeout_s: Seconds until the watch must be open; None: the client's timeout.

        Raises `InvalidRequestError` for invalid arguments. The watch sends its first request when
        it is opened; that raises the errors of `get_kv_state`, and `InvalidRequestError`
        (UNSUPPORTED) for timers and operator state.
        """
        options: ReadOptions = {"timeout_s": timeout_s}
        if key_type is not None:
            options["key_type"] = key_type
        if descriptor is not None:
            options["descriptor"] = descriptor
        batcher = self._batcher(job, state_name, options, SCAN)
        if self._watch_streams is None:
            self._watch_streams = WatchStreams(self._dispatcher())
        return Watch(
            self._watch_streams,
            batcher,
            WatchedKeys.of(keys, prefix, after_batch),
            checked_timeout(reconnect_timeout_s),
        )

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
        response = await self._dispatcher().pool.call(
            "MeasureState", request, timeout_s=self._seconds(timeout_s), home_only=True
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
        check_hot_keys_limit(limit)
        if state_name is not None:
            check_name(state_name)
        response = await self._dispatcher().pool.call(
            "ListHotKeys",
            hot_keys_pb2.ListHotKeysRequest(
                job=job_text(job), state_name=state_name or "", limit=limit
            ),
            timeout_s=self._seconds(timeout_s),
            home_only=True,
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
        located = await dispatcher.locator.located_anew(handle, deadline)
        return StateInfo.from_proto(located.registration)

    async def list_jobs(
        self, *, allow_stale: bool = False, timeout_s: float | None = None
    ) -> list[JobInfo]:
        """Lists the jobs that the coordinator knows, oldest first.

        `allow_stale`: if the driver does not answer, a proxy lists those that it knew last, with
        the health UNREACHABLE.
        Fails after `timeout_s` seconds (None: the client's timeout) with `QueryTimeoutError`, or
        with the error of the last attempt.
        """
        response = await self._dispatcher().pool.call(
            "ListJobs",
            query_pb2.ListJobsRequest(allow_stale=allow_stale),
            timeout_s=self._seconds(timeout_s),
        )
        return [JobInfo.from_proto(job) for job in response.jobs]

    async def describe_job(
        self, job: Job = None, *, with_history: bool = False, timeout_s: float | None = None
    ) -> JobDescription:
        """Returns what is known of a job: health, findings, errors, rates, checkpoints, placement.

        `job` None: the only job, or the only one that runs. `with_history`: also the batches of
        the last hour. If the driver does not answer, a proxy returns what it knew last, with
        `age_ms`. Raises `UnknownJobError`, and `RetryLaterError` if nothing is known.
        """
        request = status_pb2.DescribeJobRequest(job=job_text(job), with_history=with_history)
        response = await self._dispatcher().pool.call(
            "DescribeJob", request, timeout_s=self._seconds(timeout_s)
        )
        return JobDescription.from_proto(response)

    async def list_servers(self, *, timeout_s: float | None = None) -> list[ServerStatus]:
        """Lists the state servers with their leases: live ones, then lost ones, newest first.

        If the driver does not answer, a proxy returns those that it knew last, with `age_ms`.
        """
        response = await self._dispatcher().pool.call(
            "ListServers", status_pb2.ListServersRequest(), timeout_s=self._seconds(timeout_s)
        )
        return [ServerStatus.from_proto(each, response.age_ms) for each in response.servers]

    async def list_states(
        self, job: Job = None, *, timeout_s: float | None = None
    ) -> list[StateInfo]:
        """Lists the queryable states of a job (None: of all jobs), sorted by job and name.

        Fails after `timeout_s` seconds (None: the client's timeout). Raises `UnknownJobError`
        if there is no such job.
        """
        response = await self._dispatcher().pool.call(
            "ListStates",
            query_pb2.ListStatesRequest(job=job_text(job)),
            timeout_s=self._seconds(timeout_s),
        )
        return [StateInfo.from_proto(state) for state in response.states]
