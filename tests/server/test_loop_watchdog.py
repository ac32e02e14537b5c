"""What holds an event loop is named."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from tests.waiting import DEADLINE_S

from queryable_state.server.process.loop_watchdog import LoopWatchdog

if TYPE_CHECKING:
    import pytest


def hold_the_loop(seconds: float) -> None:
    ends_s = time.process_time() + seconds
    while time.process_time() < ends_s:
        pass


async def test_a_stall_is_counted_and_the_log_names_what_held_the_loop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # A machine that has other work gives this process a part of the time.
    async with LoopWatchdog("test", ran=0.02) as watchdog, asyncio.timeout(DEADLINE_S):
        await asyncio.sleep(0.1)
        while not watchdog.stalls:
            hold_the_loop(0.3)
            await asyncio.sleep(0.05)
    assert watchdog.worst_s > 0.05
    assert "the event loop of the test stalled for" in caplog.messages[0]
    assert "hold_the_loop" in caplog.messages[0]


async def test_a_process_that_does_not_run_has_no_stall() -> None:
    """As one that is stopped, or waits for the processor: nothing of it held the loop."""
    async with LoopWatchdog("test", bound_s=0.05) as watchdog:
        await asyncio.sleep(0.1)
        time.sleep(0.4)  # noqa: ASYNC251 - the stall that is meant
        await asyncio.sleep(0.1)
    assert watchdog.stalls == 0
