"""An event loop on a thread of its own, called from other threads."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from queryable_state.wire.calls.loop_thread import LoopThread
from queryable_state.wire.errors import RetryLaterError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def _thread_names() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


def test_the_first_call_starts_the_thread_and_stop_ends_it() -> None:
    thread = LoopThread("calls under test")
    assert "calls under test" not in _thread_names()

    async def name() -> str:
        return threading.current_thread().name

    assert thread.call(name) == thread.run(name()) == "calls under test"
    thread.stop()
    thread.stop()
    assert "calls under test" not in _thread_names()


def test_many_threads_call_at_once() -> None:
    thread = LoopThread("calls under test")

    async def doubled(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    with ThreadPoolExecutor(8) as callers:
        found = list(callers.map(lambda number: thread.run(doubled(number)), range(200)))
    assert found == [2 * number for number in range(200)]
    thread.stop()


def test_a_call_raises_what_its_work_raises_or_that_its_time_is_over() -> None:
    thread = LoopThread("calls under test")

    async def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        thread.call(fail)
    with pytest.raises(TimeoutError, match="calls under test"):
        thread.call(asyncio.Event().wait, timeout_s=0.01)
    thread.stop()


def test_stop_fails_what_is_pending_and_runs_the_cleanup() -> None:
    cleaned = threading.Event()
    begun = threading.Event()

    async def cleanup() -> None:
        cleaned.set()

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    thread = LoopThread(
        "calls under test", cleanup=cleanup, stopped_error=lambda: RetryLaterError("stopped")
    )
    with ThreadPoolExecutor(1) as caller:
        pending = caller.submit(thread.call, wait)
        begun.wait(10)
        thread.stop()
        with pytest.raises(RetryLaterError, match="stopped"):
            pending.result(10)
    assert cleaned.is_set()
    with pytest.raises(RetryLaterError, match="stopped"):
        thread.call(wait)


def test_stop_ends_generators_that_nobody_reads_to_their_end() -> None:
    """Else the garbage collector would call the closed loop."""
    thread = LoopThread("calls under test")
    ended = threading.Event()

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            ended.set()

    left = numbers()

    async def first() -> int:
        return await anext(left)

    assert thread.call(first) == 1
    thread.stop()
    assert ended.is_set()
