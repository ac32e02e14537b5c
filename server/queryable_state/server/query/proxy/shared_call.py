"""A question to the coordinator that many callers ask and few calls answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

from queryable_state.wire.calls.single_flight import SingleFlight

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_T = TypeVar("_T")

# Calls that may follow each other at once, and time from one to the next after so many.
_BURST = 10
_INTERVAL_S = 0.1


class SharedCall(Generic[_T]):
    """One question to the coordinator, asked 10 times a second at most.

    Callers share calls, but each gets the answer, or the failure, of a call that began after it
    asked: an answer is never older than its question. A burst has no delay. `aclose` cancels what
    runs; callers do not modify answers.
    """

    def __init__(self, call: Callable[[], Awaitable[_T]]) -> None:
        self._call = call
        self._due_s = float("-inf")
        self._begun = 0
        self._calls: SingleFlight[int, _T] = SingleFlight()

    async def answer(self) -> _T:
        """The answer of the next call to begin."""
        return await self._calls.run(self._begun, self._next)

    async def aclose(self) -> None:
        """Cancels the running calls; idempotent."""
        await self._calls.aclose()

    async def _next(self) -> _T:
        now_s = asyncio.get_running_loop().time()
        await asyncio.sleep(max(0.0, self._due_s - (_BURST - 1) * _INTERVAL_S - now_s))
        self._due_s = max(self._due_s, now_s) + _INTERVAL_S
        # Who asks from now on needs a later call.
        self._begun += 1
        return await self._call()
