"""Large requests of clients, one after the other, so that small ones get through between them."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LARGE_BYTES = 1024
"""A longer request has so many keys, or such long ones, that it waits for its turn."""

LARGE_ANSWER_BYTES = 64 * 1024
"""Whoever was given a longer answer waits for its turn with the next request, however short."""

_TURN_S = 0.005


class LargeRequestQueue:
    """Runs work in the order it came, some milliseconds of it in each turn of the loop.

    The loop looks at every connection in a turn: without this, as many large answers as there are
    connections would stand before a small one.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[], object], bool]] = deque()
        self._scheduled = False

    def run(self, work: Callable[[], object]) -> None:
        """Has `work` called, which must not raise, when its turn has come."""
        self._add(work, last=False)

    async def next(self) -> None:
        """Returns when the turn has come; what follows until the next `await` is in it."""
        come = asyncio.get_running_loop().create_future()

        def tell() -> None:
            if not come.done():
                come.set_result(None)

        # Whoever waits goes on in the next turn of the loop, and is alone in that.
        self._add(tell, last=True)
        await come

    def _add(self, work: Callable[[], object], *, last: bool) -> None:
        self._waiting.append((work, last))
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        until_s = time.perf_counter() + _TURN_S
        while self._waiting:
            work, last = self._waiting.popleft()
            work()
            if last or time.perf_counter() >= until_s:
                break
        self._scheduled = bool(self._waiting)
        if self._scheduled:
            asyncio.get_running_loop().call_soon(self._go_on)
