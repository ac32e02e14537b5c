"""The client for threads."""

from __future__ import annotations

import threading
import warnings
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from queryable_state.client._client import DEFAULT_PORT, DEFAULT_TIMEOUT_S
from queryable_state.client._client import QueryableStateClient as AsyncClient
from queryable_state.client._errors import ClientClosedError
from queryable_state.client._info import Consistency
from queryable_state.client.blocking._loop_thread import LoopThread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.client._arguments import Job
    from queryable_state.client._listing import JobInfo, StateInfo
    from queryable_state.client._state import KvState


class QueryableStateClient:
    """Looks up the keyed state of running jobs, blocking the calling thread.

        with QueryableStateClient("host", 9069) as client:
            print(client.get_kv_state(job, "lastTemperature", "sensor_1").value())

    The same calls as `queryable_state.client.QueryableStateClient`, which says
    what they mean; each returns what the other's await does. Thread-safe:
    share one among threads, and their queries travel together. It runs an event
    loop on a thread of its own from the first call to `close`.
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
        self,
        job: Job,
        state_name: str,
        key: Any,
        *,
        key_type: object = None,
        descriptor: object = None,
        namespace: bytes | None = None,
        consistency: Consistency = Consistency.COMMITTED,
        allow_incomplete: bool = False,
        timeout_s: float | None = None,
    ) -> KvState:
        """The state under one key."""
        state: KvState = self._opened().call(
            partial(
                self._client.get_kv_state,
                job,
                state_name,
                key,
                key_type=key_type,
                descriptor=descriptor,
                namespace=namespace,
                consistency=consistency,
                allow_incomplete=allow_incomplete,
                timeout_s=timeout_s,
            )
        )
        return state

    def get_kv_states(
        self,
        job: Job,
        state_name: str,
        keys: Iterable[Any],
        *,
        key_type: object = None,
        descriptor: object = None,
        namespace: bytes | None = None,
        consistency: Consistency = Consistency.COMMITTED,
        allow_incomplete: bool = False,
        timeout_s: float | None = None,
    ) -> list[KvState | None]:
        """The states under many keys, aligned with `keys`; None where there is none."""
        states: list[KvState | None] = self._opened().call(
            partial(
                self._client.get_kv_states,
                job,
                state_name,
                list(keys),
                key_type=key_type,
                descriptor=descriptor,
                namespace=namespace,
                consistency=consistency,
                allow_incomplete=allow_incomplete,
                timeout_s=timeout_s,
            )
        )
        return states

    def list_jobs(self, *, timeout_s: float | None = None) -> list[JobInfo]:
        """The jobs the coordinator knows, oldest first."""
        jobs: list[JobInfo] = self._opened().call(
            partial(self._client.list_jobs, timeout_s=timeout_s)
        )
        return jobs

    def list_states(self, job: Job = None, *, timeout_s: float | None = None) -> list[StateInfo]:
        """The queryable states of a job, or of all jobs, by job and name."""
        states: list[StateInfo] = self._opened().call(
            partial(self._client.list_states, job, timeout_s=timeout_s)
        )
        return states

    def close(self) -> None:
        """Fails what other threads wait for and closes every connection. Idempotent."""
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

    def _opened(self) -> LoopThread:
        thread = self._thread
        if thread is not None:
            return thread
        with self._lock:
            if self._closed:
                raise ClientClosedError("this client is closed: open another")
            if self._thread is None:
                self._thread = LoopThread(repr(self._client), self._client.aclose)
                # A client that is dropped, or open when the interpreter ends, ends its thread.
                self._finalizer = weakref.finalize(self, self._thread.stop)
            return self._thread
