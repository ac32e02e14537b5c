"""The one thread on which everything long happens."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_P = ParamSpec("_P")
_T = TypeVar("_T")


class BackgroundThread:
    """Runs jobs one after the other, in the order they were handed over.

    A store is closed by a job as well: jobs handed over before see it open, and nobody hands
    one over after the store left the table. A job that was begun is never cancelled.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bulk")

    def run(self, job: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Awaitable[_T]:
        """Hands a job over at once, in this turn of the loop; awaiting gives its result."""
        return asyncio.wrap_future(self._executor.submit(job, *args, **kwargs))

    async def aclose(self) -> None:
        """Waits for the jobs handed over and ends the thread; idempotent."""
        await asyncio.to_thread(self._executor.shutdown)
