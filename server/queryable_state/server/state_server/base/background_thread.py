"""The background thread of a state server, for work too long for the event loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_P = ParamSpec("_P")
_T = TypeVar("_T")


class BackgroundThread:
    """Runs jobs one after the other, in the order they were enqueued.

    A store is closed by a job, too: jobs enqueued earlier see it open, and no job is enqueued
    after the store has left the table. A job that has begun is never cancelled.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bulk")

    def run(self, job: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Awaitable[_T]:
        """Enqueues a job before it returns; awaiting returns the job's result."""
        return asyncio.wrap_future(self.submit(job, *args, **kwargs))

    def submit(self, job: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """As `run`, on any thread."""
        return self._executor.submit(job, *args, **kwargs)

    async def aclose(self) -> None:
        """Waits for the enqueued jobs and ends the thread; idempotent."""
        await asyncio.to_thread(self._executor.shutdown)
