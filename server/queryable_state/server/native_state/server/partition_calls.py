"""Blocking calls for partitions, on threads."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from queryable_state.server.native_state.server.served_partition import ServedPartition
    from queryable_state.server.state_server.base.background_thread import BackgroundThread
    from queryable_state.server.state_server.base.thread_pool import ThreadPool
    from queryable_state.server.storage.overlay import Overlay
    from queryable_state.server.storage.store import StateStore

_log = logging.getLogger(__name__)

_Found = TypeVar("_Found", bound="Overlay | StateStore")


class PartitionCalls:
    """Reads files for partitions side by side, and closes stores in the background."""

    def __init__(self, threads: ThreadPool, background: BackgroundThread) -> None:
        self._threads = threads
        self._background = background

    async def all(
        self, partitions: Sequence[ServedPartition], call: Callable[[ServedPartition], _Found]
    ) -> list[_Found]:
        """The result of `call` for each partition; if one fails, raises it and closes the others'
        stores."""
        results = await asyncio.gather(
            *(self._threads.run(call, each) for each in partitions), return_exceptions=True
        )
        found = [each for each in results if not isinstance(each, BaseException)]
        for problem in results:
            if isinstance(problem, BaseException):
                self.destroy(*found)
                raise problem
        return found

    def destroy(self, *found: Overlay | StateStore) -> None:
        """Closes stores and removes their files behind the reads that are enqueued."""
        for each in found:
            destroy = getattr(each, "destroy", None)
            if destroy is not None:
                self._background.submit(destroy).add_done_callback(_log_failure)


def _log_failure(done: Future[object]) -> None:
    problem = done.exception()
    if problem is not None:
        _log.error("a store could not be closed", exc_info=problem)
