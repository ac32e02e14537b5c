"""The process of a command that serves until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def tune() -> None:
    """Sets what gRPC reads from the environment when it is first imported; call it before that.

    Measured: 30 to 40 % off the latency of single queries.
    """
    os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client,-event_engine_listener")


def settle() -> None:
    """Sets up the garbage collector for a process that has made what it keeps."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 1000)


def run_until_stopped(serve: Callable[[asyncio.Event], Awaitable[None]]) -> int:
    """Runs `serve(stop)`; SIGINT and SIGTERM set `stop`. Returns the exit code."""
    import uvloop

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, stop.set)
        await serve(stop)

    uvloop.run(run())
    return 0
