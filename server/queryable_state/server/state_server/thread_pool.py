"""Threads for what waits for disks and networks."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_P = ParamSpec("_P")
_T = TypeVar("_T")


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
