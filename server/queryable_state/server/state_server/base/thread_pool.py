"""Threads for what waits for disks and networks."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from queryable_state.server.state_server.base.bulk_thread import BackgroundThread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_P = ParamSpec("_P")
_T = TypeVar("_T")

# Changelogs written at once; they wait for disks and networks.
_STORING_THREADS = 16
# Files of restores and snapshots moved at once, of all jobs.
_TRANSFER_THREADS = 16
# Stores filled at once: that takes the interpreter.
_LOADING_THREADS = 2


class ThreadPool:
    """Runs jobs beside each other, as many as there are threads, the others in turn.

    A job that was begun is never cancelled, whoever stopped waiting for it.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._executor = ThreadPoolExecutor(max_workers=threads, thread_name_prefix=name)

    def run(self, job: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Awaitable[_T]:
        """Hands a job over at once; awaiting gives its result."""
        return asyncio.wrap_future(self._executor.submit(job, *args, **kwargs))

    async def aclose(self) -> None:
        """Waits for the jobs that were begun and ends the threads; idempotent."""
        await asyncio.to_thread(self._executor.shutdown, cancel_futures=True)


class ServerThreads:
    """The threads of one server: what holds one kind of work up never holds up another."""

    def __init__(self) -> None:
        self.background = BackgroundThread()
        self.storing = ThreadPool("storing", _STORING_THREADS)
        self.transfers = ThreadPool("transfer", _TRANSFER_THREADS)
        self.loading = ThreadPool("loading", _LOADING_THREADS)

    async def aclose(self) -> None:
        """Waits for the jobs that were begun and ends all threads."""
        for threads in (self.loading, self.transfers, self.storing, self.background):
            await threads.aclose()
