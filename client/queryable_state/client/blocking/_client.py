"""Blocking client for threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.client._scans.scan_range import ALL
from queryable_state.client.blocking._lookups import KeyLookups
from queryable_state.client.blocking._scan import Scan
from queryable_state.client.blocking._watch import Watch

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from typing import Unpack

    from queryable_state.client._arguments import Job
    from queryable_state.client._read_options import ReadOptions
    from queryable_state.client._reading.connection_info import ConnectionInfo
    from queryable_state.client._reading.elements import MapEntry
    from queryable_state.client._reading.explanation import Explanation
    from queryable_state.client._reading.hot_keys import HotKeys
    from queryable_state.client._reading.listing import JobInfo, StateInfo
    from queryable_state.client._reading.operator_state import OperatorState
    from queryable_state.client._reading.size_estimate import StateMeasure
    from queryable_state.client._reading.states import KvState
    from queryable_state.client._reading.timed.key_windows import KeyWindows
    from queryable_state.client._reading.timed.pending_timers import PendingTimers
    from queryable_state.client._scans.scan import Scan as AsyncScan
    from queryable_state.client._status.job_description import JobDescription
    from queryable_state.client._status.server_status import ServerStatus
    from queryable_state.client._watches.watch import Watch as AsyncWatch


class QueryableStateClient(KeyLookups):
    """Client for the keyed state of running jobs; calls block the calling thread.

        with QueryableStateClient("host", 9069) as client:
            print(client.get_kv_state(job, "lastTemperature", "sensor_1").value())

    Same calls, arguments, units and errors as `queryable_state.client.QueryableStateClient`;
    each call returns the result of the corresponding await. Thread-safe: share one client
    among threads, so that it batches their lookups. It runs an event loop on a background
    thread from the first call until `close`.
    """

    def get_operator_state(
        self,
        job: Job,
        state_name: str,
        subtask: int | None = None,
        *,
        one_cut: bool = False,
        **options: Unpack[ReadOptions],
    ) -> OperatorState:
        """Returns the operator state of one subtask (None: of all)."""
        call = self._client.get_operator_state
        return self._call(call, job, state_name, subtask, one_cut=one_cut, **options)

    def get_broadcast_entry(
        self, job: Job, state_name: str, map_key: Any, **options: Unpack[ReadOptions]
    ) -> MapEntry:
        """Returns one entry of a broadcast state; does not read the other entries."""
        return self._call(self._client.get_broadcast_entry, job, state_name, map_key, **options)

    def get_windows(
        self,
        job: Job,
        state_name: str,
        key: Any,
        start: int | datetime | None = None,
        end: int | datetime | None = None,
        *,
        newest: int | None = None,
        **options: Unpack[ReadOptions],
    ) -> KeyWindows:
        """Returns the windows of one key with their states."""
        call = self._client.get_windows
        return self._call(call, job, state_name, key, start, end, newest=newest, **options)

    def get_newest_window(
        self, job: Job, state_name: str, key: Any, **options: Unpack[ReadOptions]
    ) -> KvState:
        """Returns the state of the window of a key that starts last."""
        return self._call(self._client.get_newest_window, job, state_name, key, **options)

    def get_timers(
        self, job: Job, state_name: str, key: Any, **options: Unpack[ReadOptions]
    ) -> PendingTimers:
        """Returns the pending timers of one key, in the order in which they fire."""
        return self._call(self._client.get_timers, job, state_name, key, **options)

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
        """Returns an iterator of keys with their states, from one committed batch."""
        thread, scan = self._opened(), self._client.scan

        async def open_scan() -> AsyncScan:
            return scan(
                job,
                state_name,
                start=start,
                end=end,
                prefix=prefix,
                limit=limit,
                page_token=page_token,
                allow_newer=allow_newer,
                keys_only=keys_only,
                **options,
            )

        return Scan(self, thread, thread.call(open_scan))

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
        """Returns an iterator of the committed changes of a state, which waits for them."""
        thread, watch = self._opened(), self._client.watch

        async def make_watch() -> AsyncWatch:
            return watch(
                job,
                state_name,
                keys=keys,
                prefix=prefix,
                after_batch=after_batch,
                reconnect_timeout_s=reconnect_timeout_s,
                key_type=key_type,
                descriptor=descriptor,
                timeout_s=timeout_s,
            )

        return Watch(self, thread, thread.call(make_watch))

    def measure(self, job: Job, state_name: str, *, timeout_s: float | None = None) -> StateMeasure:
        """Counts the keys, records and bytes of a state, in total and for each subtask."""
        return self._call(self._client.measure, job, state_name, timeout_s=timeout_s)

    def hot_keys(
        self,
        job: Job,
        state_name: str | None = None,
        *,
        limit: int = 10,
        timeout_s: float | None = None,
    ) -> HotKeys:
        """Returns the keys that queries and tasks touched most often in the last minute."""
        return self._call(self._client.hot_keys, job, state_name, limit=limit, timeout_s=timeout_s)

    def explain(
        self, job: Job, state_name: str, key: Any, **options: Unpack[ReadOptions]
    ) -> Explanation:
        """Looks up one key and explains the lookup."""
        return self._call(self._client.explain, job, state_name, key, **options)

    def describe_job(
        self, job: Job = None, *, with_history: bool = False, timeout_s: float | None = None
    ) -> JobDescription:
        """Returns what is known of a job: health, findings, errors, rates, placement."""
        call = self._client.describe_job
        return self._call(call, job, with_history=with_history, timeout_s=timeout_s)

    def list_servers(self, *, timeout_s: float | None = None) -> list[ServerStatus]:
        """Lists the state servers with their leases."""
        return self._call(self._client.list_servers, timeout_s=timeout_s)

    def list_jobs(
        self, *, allow_stale: bool = False, timeout_s: float | None = None
    ) -> list[JobInfo]:
        """Lists the jobs that the coordinator knows, oldest first."""
        return self._call(self._client.list_jobs, allow_stale=allow_stale, timeout_s=timeout_s)

    def list_states(self, job: Job = None, *, timeout_s: float | None = None) -> list[StateInfo]:
        """Lists the queryable states of a job (None: of all jobs), sorted by job and name."""
        return self._call(self._client.list_states, job, timeout_s=timeout_s)

    def connections(self) -> tuple[ConnectionInfo, ...]:
        """Returns the transport to each server, the given one first. Sends no request."""

        async def connections() -> tuple[ConnectionInfo, ...]:
            return self._client.connections()

        return self._call(connections)

    def describe_state(
        self, job: Job, state_name: str, *, timeout_s: float | None = None
    ) -> StateInfo:
        """Returns the registered kind and types of one state."""
        return self._call(self._client.describe_state, job, state_name, timeout_s=timeout_s)
