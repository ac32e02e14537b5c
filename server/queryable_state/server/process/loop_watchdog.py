"""Watchdog thread for stalls of an event loop."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Self

from queryable_state.server.process.rate_limited_log import RateLimitedLog

if TYPE_CHECKING:
    from types import FrameType

_log = logging.getLogger(__name__)

_TICK_S = 0.02
_BOUND_S = 0.05
# A process that ran for a smaller part of the stall was waiting for a CPU.
_RAN = 0.5
_FRAMES = 8


class LoopWatchdog:
    """Watches the running loop while `async with` lasts.

    A stall is a turn of the loop of more than 50 ms in which this process used the CPU. It is
    counted, and logged with the stack of the loop's thread, at most one line in ten seconds.
    The stack of a call that holds the GIL is that of its return.
    """

    def __init__(self, what: str, *, bound_s: float = _BOUND_S, ran: float = _RAN) -> None:
        """`ran` is the part of a stall in which this process must have run."""
        self._what = what
        self._bound_s = bound_s
        self._ran = ran
        self._stalls = RateLimitedLog(_log)
        self._ended = threading.Event()
        self._tick: asyncio.TimerHandle | None = None
        self._ticked_s = 0.0
        self._loop_thread = 0
        self.stalls = 0
        """Stalls so far."""
        self.stalled_s = 0.0
        """Duration of all of them."""
        self.worst_s = 0.0
        """The longest of them."""

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._turned()
        self._thread = threading.Thread(target=self._watch, name="loop watchdog", daemon=True)
        self._thread.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._ended.set()
        if self._tick is not None:
            self._tick.cancel()
        self._thread.join()

    def _turned(self) -> None:
        self._ticked_s = time.monotonic()
        self._tick = self._loop.call_later(_TICK_S, self._turned)

    def _watch(self) -> None:
        before_s = time.process_time()
        while not self._ended.wait(_TICK_S):
            ticked_s, used_s = self._ticked_s, time.process_time()
            if time.monotonic() - ticked_s <= _TICK_S + self._bound_s:
                before_s = used_s
                continue
            stack = _stack_of(sys._current_frames().get(self._loop_thread))
            while self._ticked_s == ticked_s and not self._ended.wait(_TICK_S / 4):
                pass
            held_s = self._ticked_s - ticked_s - _TICK_S
            # CPU time since the last check at which the loop had turned.
            ran_s = time.process_time() - before_s
            if held_s > self._bound_s and ran_s >= self._ran * held_s:
                self._report(held_s, ran_s, stack)

    def _report(self, held_s: float, ran_s: float, stack: str) -> None:
        self.stalls += 1
        self.stalled_s += held_s
        self.worst_s = max(self.worst_s, held_s)
        self._stalls.write(
            logging.WARNING,
            "stall",
            "the event loop of the %s stalled for %d ms (stall %d, this process ran for "
            "%d ms of it): %s",
            self._what,
            held_s * 1000,
            self.stalls,
            ran_s * 1000,
            stack,
        )


def _stack_of(frame: FrameType | None) -> str:
    """The innermost calls of a thread, on one line."""
    calls = traceback.extract_stack(frame)[-_FRAMES:] if frame is not None else []
    return " > ".join(
        f"{call.filename.rpartition('/')[2]}:{call.lineno} {call.name}" for call in calls
    )
