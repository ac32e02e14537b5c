"""Thread pools for disk and network I/O."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from queryable_state.server.state_server.base.background_thread import BackgroundThread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_P = ParamSpec("_P")
_T = TypeVar("_T")

# Concurrent writes of changelogs, which mostly wait for I/O.
_STORING_THREADS = 16
# Concurrent file transfers of restores and snapshots, of all jobs.
_TRANSFER_THREADS = 16
# Concurrent loads of stores, which are bound by the interpreter lock.
_LOADING_THREADS = 2


class ThreadPool:
    """A fixed number of threads and a queue of jobs.

    A job that has begun is never cancelled, even if its caller is.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._executor = ThreadPoolExecutor(max_workers=threads, thread_name_prefix=name)

    def run(self, job: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Awaitable[_T]:
        """Enqueues a job at once; awaiting returns its result."""
        return asyncio.wrap_future(self._executor.submit(job, *args, **kwargs))

    async def aclose(self) -> None:
        """Waits for the jobs that have begun and ends the threads; idempotent."""
        await asyncio.to_thread(self._executor.shutdown, cancel_futures=True)


class ServerThreads:
    """The thread pools of one server, one for each kind of work, so that none blocks another."""

    def __init__(self) -> None:
        self.background = BackgroundThread()
        self.storing = ThreadPool("storing", _STORING_THREADS)
        self.transfers = ThreadPool("transfer", _TRANSFER_THREADS)
        self.loading = ThreadPool("loading", _LOADING_THREADS)

    async def aclose(self) -> None:
        """Waits for the jobs that have begun and ends all threads."""
        for threads in (self.loading, self.transfers, self.storing, self.background):
            await threads.aclose()
