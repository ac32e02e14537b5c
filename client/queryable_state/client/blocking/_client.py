"""Blocking client for threads."""

from __future__ import annotations

import threading
import warnings
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from queryable_state.client._client import DEFAULT_PORT, DEFAULT_TIMEOUT_S
from queryable_state.client._client import QueryableStateClient as AsyncClient
from queryable_state.client._errors import ClientClosedError
from queryable_state.client._lookups import NO_MAP_KEY
from queryable_state.client._scans.scan_range import ALL
from queryable_state.client.blocking._scan import Scan
from queryable_state.wire.calls.loop_thread import LoopThread

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Iterable
    from typing import Unpack

    from queryable_state.client._arguments import Job
    from queryable_state.client._read_options import ReadOptions
    from queryable_state.client._reading.connection_info import ConnectionInfo
    from queryable_state.client._reading.elements import MapEntry, Presence, Size
    from queryable_state.client._reading.explanation import Explanation
    from queryable_state.client._reading.listing import JobInfo, StateInfo
    from queryable_state.client._reading.multi_get import MultiGet
    from queryable_state.client._reading.operator_state import OperatorState
    from queryable_state.client._reading.size_estimate import StateMeasure
    from queryable_state.client._reading.states import KvState
    from queryable_state.client._scans.scan import Scan as AsyncScan

_Result = TypeVar("_Result")


class QueryableStateClient:
    """Client for the keyed state of running jobs; calls block the calling thread.

        with QueryableStateClient("host", 9069) as client:
            print(client.get_kv_state(job, "lastTemperature", "sensor_1").value())

    Same calls, arguments, units and errors as `queryable_state.client.QueryableStateClient`;
    each call returns the result of the corresponding await. Thread-safe: share one client
    among threads, so that it batches their lookups. It runs an event loop on a background
    thread from the first call until `close`.
    """

    def __init__(
        self,
        host: str,
        port: int = DEFAULT_PORT,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        direct: bool = True,
        unpickle: bool = False,
    ) -> None:
        self._client = AsyncClient(
            host, port, timeout_s=timeout_s, direct=direct, unpickle=unpickle
        )
        self._lock = threading.Lock()
        self._thread: LoopThread | None = None
        self._closed = False
        self._finalizer: weakref.finalize[Any, Any] | None = None

    def get_kv_state(
        self, job: Job, state_name: str, key: Any, **options: Unpack[ReadOptions]
    ) -> KvState:
        """Returns the state under one key; raises `UnknownKeyOrNamespaceError` if there is none."""
        return self._call(self._client.get_kv_state, job, state_name, key, **options)

    def get_kv_states(
        self,
        job: Job,
        state_name: str,
        keys: Iterable[Any],
        *,
        one_cut: bool = False,
        **options: Unpack[ReadOptions],
    ) -> list[KvState | None]:
        """Returns the states under many keys, aligned with `keys`; None for a key without one."""
        call = self._client.get_kv_states
        return self._call(call, job, state_name, list(keys), one_cut=one_cut, **options)

    def multi_get(
        self,
        job: Job,
        state_name: str,
        keys: Iterable[Any],
        *,
        one_cut: bool = False,
        **options: Unpack[ReadOptions],
    ) -> MultiGet:
        """Returns one result for each of many keys, aligned with `keys`; a key may fail alone."""
        call = self._client.multi_get
        return self._call(call, job, state_name, list(keys), one_cut=one_cut, **options)

    def get_map_entry(
        self, job: Job, state_name: str, key: Any, map_key: Any, **options: Unpack[ReadOptions]
    ) -> MapEntry:
        """Returns one entry of a map state; does not read the other entries."""
        return self._call(self._client.get_map_entry, job, state_name, key, map_key, **options)

    def contains(
        self,
        job: Job,
        state_name: str,
        key: Any,
        map_key: Any = NO_MAP_KEY,
        **options: Unpack[ReadOptions],
    ) -> Presence:
        """Returns the presence of a key or, with `map_key`, of a map entry."""
        return self._call(self._client.contains, job, state_name, key, map_key, **options)

    def size(self, job: Job, state_name: str, key: Any, **options: Unpack[ReadOptions]) -> Size:
        """Returns the number of elements and the bytes stored under a key."""
        return self._call(self._client.size, job, state_name, key, **options)

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

        return Scan(thread, thread.call(open_scan))

    def measure(self, job: Job, state_name: str, *, timeout_s: float | None = None) -> StateMeasure:
        """Estimates the records and bytes of a state, in total and for each owner."""
        return self._call(self._client.measure, job, state_name, timeout_s=timeout_s)

    def explain(
        self, job: Job, state_name: str, key: Any, **options: Unpack[ReadOptions]
    ) -> Explanation:
        """Looks up one key and explains the lookup."""
        return self._call(self._client.explain, job, state_name, key, **options)

    def list_jobs(self, *, timeout_s: float | None = None) -> list[JobInfo]:
        """Lists the jobs that the coordinator knows, oldest first."""
        return self._call(self._client.list_jobs, timeout_s=timeout_s)

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

    def close(self) -> None:
        """Fails the pending calls of other threads and closes every connection. Idempotent."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
            finalizer, self._finalizer = self._finalizer, None
        if finalizer is not None:
            finalizer.detach()
        if thread is not None:
            thread.stop()

    def __enter__(self) -> Self:
        self._opened()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __del__(self, _warn: Any = warnings.warn) -> None:
        if getattr(self, "_thread", None) is not None:
            _warn(
                f"{self._client!r} was never closed: use `with`, or call close()", ResourceWarning
            )

    def __repr__(self) -> str:
        return f"<blocking {self._client!r}>"

    def _call(
        self,
        call: Callable[..., asyncio.Future[_Result] | Coroutine[Any, Any, _Result]],
        *args: Any,
        **options: Any,
    ) -> _Result:
        result: _Result = self._opened().call(partial(call, *args, **options))
        return result

    def _opened(self) -> LoopThread:
        thread = self._thread
        if thread is not None:
            return thread
        with self._lock:
            if self._closed:
                raise _closed_error()
            if self._thread is None:
                self._thread = LoopThread(
                    repr(self._client), cleanup=self._client.aclose, stopped_error=_closed_error
                )
                # Ends the thread if the client is dropped, or open when the interpreter exits.
                self._finalizer = weakref.finalize(self, self._thread.stop)
            return self._thread


def _closed_error() -> ClientClosedError:
    return ClientClosedError("this client is closed: open another")
