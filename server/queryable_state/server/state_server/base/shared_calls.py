"""One call for all who ask the same at the same time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, KeysView

_K = TypeVar("_K")
_T = TypeVar("_T")


class SharedCalls(Generic[_K, _T]):
    """Callers of one key share one call; its answer is not kept once all have it.

    A caller that is cancelled leaves the call to the others. Failures reach every caller.
    """

    def __init__(self) -> None:
        self._calls: dict[_K, asyncio.Task[_T]] = {}

    @property
    def under_way(self) -> KeysView[_K]:
        """The keys of the calls that have not ended."""
        return self._calls.keys()

    async def ask(self, key: _K, call: Callable[[], Coroutine[None, None, _T]]) -> _T:
        """The result of the call under way for `key`, or of a new one."""
        task = self._calls.get(key)
        if task is None:
            task = self._calls[key] = asyncio.create_task(call())
            task.add_done_callback(lambda done: self._ended(key, done))
        return await asyncio.shield(task)

    def _ended(self, key: _K, task: asyncio.Task[_T]) -> None:
        del self._calls[key]
        if not task.cancelled():
            # Retrieved here: the last caller may have been cancelled before the failure.
            task.exception()

    async def aclose(self) -> None:
        """Cancels what is under way and waits for its end."""
        tasks = list(self._calls.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
