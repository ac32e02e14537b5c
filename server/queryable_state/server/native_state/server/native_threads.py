"""The threads of a server of native state."""

from __future__ import annotations

from queryable_state.server.state_server.base.background_thread import BackgroundThread
from queryable_state.server.state_server.base.thread_pool import ThreadPool

# Each batch takes a request for each store of each partition.
_REMOTE_THREADS = 32


class NativeThreads:
    """A pool for each kind of work, so that none waits for another."""

    def __init__(self, transfers: int, *, is_local: bool) -> None:
        """`transfers`: threads that read files at once; more follow a query on an object store."""
        self.background = BackgroundThread()
        """Reads, compaction and the end of stores."""
        self.loading = ThreadPool("loading", transfers)
        """First loads of partitions, for which no commit waits."""
        following = transfers if is_local else max(transfers, _REMOTE_THREADS)
        self.following = ThreadPool("following", following)
        """Logs, and the files of commits."""

    async def aclose(self) -> None:
        """Waits for the jobs that have begun and ends all threads; idempotent."""
        for threads in (self.following, self.loading, self.background):
            await threads.aclose()
