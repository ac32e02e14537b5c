"""Orderly end of a benchmark program by SIGINT or SIGTERM.

The first signal makes the program leave its `with` blocks, which end its child processes. Later
signals are ignored, so that they cannot interrupt that. The exit code is 128 plus the signal.
"""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def exit_on_signal() -> None:
    """Makes the first signal raise `SystemExit` in the main thread."""

    def leave(number: int, _frame: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    for each in _SIGNALS:
        signal.signal(each, leave)


def exit_on_sigterm() -> None:
    """Prepares a child of a program: SIGTERM raises `SystemExit`, SIGINT is ignored.

    Ctrl-C reaches the child and its parent; the parent ends the child by SIGTERM.
    """
    exit_on_signal()
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run_async(program: Coroutine[Any, Any, int]) -> int:
    """Runs a program on uvloop and returns its exit code; the first signal cancels it."""
    import uvloop

    received: list[int] = []

    async def run() -> int:
        task = asyncio.current_task()
        assert task is not None

        def cancel(number: int) -> None:
            if not received:
                task.cancel()
            received.append(number)

        for each in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(each, cancel, each)
        return await program

    try:
        return uvloop.run(run())
    except asyncio.CancelledError:
        if not received:
            raise
        return 128 + received[0]
