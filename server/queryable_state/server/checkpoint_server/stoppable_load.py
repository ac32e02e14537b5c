"""Load of state that a shutdown ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from queryable_state.wire.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from queryable_state.server.serving.graceful_shutdown import GracefulShutdown

_T = TypeVar("_T")


async def unless_stopped(
    loading: Coroutine[Any, Any, _T], shutdown: GracefulShutdown, uri: str
) -> _T:
    """The result of `loading`; cancels it and raises at the first step of a shutdown."""
    task = asyncio.create_task(loading)
    stopping = asyncio.create_task(shutdown.leaving.wait())
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise CheckpointError(f"stopped before {uri} was loaded")
        return task.result()
    finally:
        task.cancel()
        stopping.cancel()
        await asyncio.wait({task, stopping})
