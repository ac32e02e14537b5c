"""Single-flight: concurrent calls with one key share one execution."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, KeysView

_K = TypeVar("_K")
_T = TypeVar("_T")


class SingleFlight(Generic[_K, _T]):
    """Runs one call for each key at a time; every caller gets its result or its failure.

    A result is not cached. A caller that is cancelled does not cancel the call. Used on one
    event loop; `aclose` cancels what runs.
    """

    def __init__(self) -> None:
        self._calls: dict[_K, asyncio.Task[_T]] = {}

    @property
    def running(self) -> KeysView[_K]:
        """The keys of the calls that have not ended."""
        return self._calls.keys()

    async def run(self, key: _K, call: Callable[[], Coroutine[None, None, _T]]) -> _T:
        """The result of the running call of `key`, or of a new one."""
        task = self._calls.get(key)
        if task is None:
            task = self._calls[key] = asyncio.create_task(call())
            task.add_done_callback(lambda done: self._ended(key, done))
        return await asyncio.shield(task)

    async def aclose(self) -> None:
        """Cancels the running calls and waits for their end."""
        tasks = list(self._calls.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, key: _K, task: asyncio.Task[_T]) -> None:
        del self._calls[key]
        if not task.cancelled():
            # Retrieved here: the last caller may have been cancelled before the failure.
            task.exception()
