"""Queue of large client requests, which lets small requests run in between."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LARGE_BYTES = 1024
"""A longer request waits in the queue."""

LARGE_ANSWER_BYTES = 64 * 1024
"""The next request after a longer answer on a connection waits in the queue, of any length."""

_TURN_S = 0.005


class LargeRequestQueue:
    """Runs work in order of arrival, some milliseconds of it in each turn of the event loop.

    One turn of the loop serves every connection: without the queue a small request would wait
    for a large answer of each of them.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[], object], bool]] = deque()
        self._scheduled = False

    def run(self, work: Callable[[], object]) -> None:
        """Calls `work`, which must not raise, when its turn comes."""
        self._add(work, last=False)

    async def next(self) -> None:
        """Returns when the caller's turn comes; it lasts until the caller's next `await`."""
        turn = asyncio.get_running_loop().create_future()

        def begin_turn() -> None:
            if not turn.done():
                turn.set_result(None)

        # The caller continues in the next turn of the loop and has that turn for itself.
        self._add(begin_turn, last=True)
        await turn

    def _add(self, work: Callable[[], object], *, last: bool) -> None:
        self._waiting.append((work, last))
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._run_slice)

    def _run_slice(self) -> None:
        until_s = time.perf_counter() + _TURN_S
        while self._waiting:
            work, last = self._waiting.popleft()
            work()
            if last or time.perf_counter() >= until_s:
                break
        self._scheduled = bool(self._waiting)
        if self._scheduled:
            asyncio.get_running_loop().call_soon(self._run_slice)
