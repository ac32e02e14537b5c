"""Settings, lifecycle and event loop of a blocking client."""

from __future__ import annotations

import threading
import warnings
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from queryable_state.client._client import DEFAULT_PORT, DEFAULT_TIMEOUT_S
from queryable_state.client._client import QueryableStateClient as AsyncClient
from queryable_state.client._errors import ClientClosedError
from queryable_state.client._process import forked
from queryable_state.wire.calls.forks import at_fork
from queryable_state.wire.calls.loop_thread import LoopThread

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Iterable

    from queryable_state.client._queries.token_credentials import Token
    from queryable_state.wire.security.tls import Tls

_Result = TypeVar("_Result")


class ClientBase:
    """Base of the blocking client, without its calls."""

    def __init__(
        self,
        host: str | None = None,
        port: int = DEFAULT_PORT,
        *,
        addresses: str | Iterable[str] | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        direct: bool = True,
        unpickle: bool = False,
        tls: Tls | bool = False,
        token: Token | None = None,
    ) -> None:
        self._client = AsyncClient(
            host,
            port,
            addresses=addresses,
            timeout_s=timeout_s,
            direct=direct,
            unpickle=unpickle,
            tls=tls,
            token=token,
        )
        self._lock = threading.Lock()
        self._thread: LoopThread | None = None
        self._closed = False
        self._finalizer: weakref.finalize[Any, Any] | None = None
        at_fork(self)

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

    def leave_to_parent(self) -> None:
        """Replaces the lock, which a thread of the parent may have held at the fork.

        The thread of the loop refuses calls in a forked process.
        """
        self._lock = threading.Lock()

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
                    repr(self._client),
                    cleanup=self._client.aclose,
                    stopped_error=_closed_error,
                    forked_error=forked,
                )
                # Ends the thread if the client is dropped, or open when the interpreter exits.
                self._finalizer = weakref.finalize(self, self._thread.stop)
            return self._thread


async def on_loop(call: Callable[..., _Result], *args: Any, **options: Any) -> _Result:
    """Calls what returns at once on the event loop, where the asyncio client belongs."""
    return call(*args, **options)


def _closed_error() -> ClientClosedError:
    return ClientClosedError("this client is closed: open another")
