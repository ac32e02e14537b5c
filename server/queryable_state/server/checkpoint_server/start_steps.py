"""Steps of the start of a server of checkpointed state."""

from __future__ import annotations

import asyncio
import tempfile
from typing import TYPE_CHECKING, Any, TypeVar

from queryable_state.wire.errors import CheckpointError, InvalidRequestError

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


def folder_of_state(directory: str) -> tempfile.TemporaryDirectory[str]:
    """A new folder in `directory`, or in the system's temporary folder if that is empty.

    Raises `InvalidRequestError` if it cannot be made.
    """
    try:
        return tempfile.TemporaryDirectory(prefix="queryable-state-", dir=directory or None)
    except OSError as problem:
        raise InvalidRequestError(
            f"cannot load the state into {directory or tempfile.gettempdir()}: {problem}: choose "
            "another directory"
        ) from problem
