"""Waiting for what happens on other tasks, threads and processes."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

DEADLINE_S = 90.0
"""For anything that comes soon: only a test that fails waits so long, and machines are shared."""


def until(condition: Callable[[], object], timeout_s: float = DEADLINE_S) -> None:
    """Returns once the condition holds; fails the test after the time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.01)


async def eventually(condition: Callable[[], object], timeout_s: float = DEADLINE_S) -> None:
    """As `until`, in a loop whose other tasks go on; the condition may be a coroutine function."""
    async with asyncio.timeout(timeout_s):
        while True:
            holds = condition()
            if await holds if inspect.isawaitable(holds) else holds:
                return
            await asyncio.sleep(0.005)
