"""Restores that go on in a state server, and how far they are."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import coordinator_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queryable_state.internal.v1.checkpoint_pb2 import RestorePlan, RestoreSource
    from queryable_state.server.state_server.restore.stored_files import StoredFiles
    from queryable_state.server.state_server.stores.owned_subtask import SubtaskId


class RestoreState:
    """Progress of one restore: bytes that are read of those that its plan needs."""

    def __init__(self, subtask_id: SubtaskId, plan: RestorePlan, stored: StoredFiles) -> None:
        self._id = subtask_id
        self._plan = plan
        self._stored = stored
        self._started_at_ms = time.time_ns() // 1_000_000
        self._before_bytes = 0
        self.bytes = _plan_bytes(plan, plan.sources[0] if plan.sources else None)
        """Bytes of all files."""
        self.replayed_bytes: Callable[[], int] = int
        """Bytes of changelogs that are read."""

    def begins(self, source: RestoreSource | None) -> None:
        """The restore begins to load a source; None: it starts empty."""
        self._before_bytes = self._stored.downloaded_bytes + self._stored.reused_bytes
        self.bytes = _plan_bytes(self._plan, source)

    def progress(self) -> coordinator_pb2.RunningRestore:
        """The progress now."""
        read = self._stored.downloaded_bytes + self._stored.reused_bytes - self._before_bytes
        return coordinator_pb2.RunningRestore(
            subtask=self._id.to_proto(),
            started_at_ms=self._started_at_ms,
            bytes_done=min(self.bytes, read + self.replayed_bytes()),
            bytes=self.bytes,
        )


class RunningRestores:
    """The restores that go on. For the event loop."""

    def __init__(self) -> None:
        self._running: set[RestoreState] = set()

    @contextmanager
    def running(
        self, subtask_id: SubtaskId, plan: RestorePlan, stored: StoredFiles
    ) -> Iterator[RestoreState]:
        """Counts a restore while the block lasts."""
        state = RestoreState(subtask_id, plan, stored)
        self._running.add(state)
        try:
            yield state
        finally:
            self._running.discard(state)

    def progress(self) -> list[coordinator_pb2.RunningRestore]:
        """The progress of each restore now."""
        return [state.progress() for state in self._running]


def _plan_bytes(plan: RestorePlan, source: RestoreSource | None) -> int:
    """Bytes of the files of a source, and of the changelogs after it."""
    after = -1 if source is None else source.version
    changelogs = sum(file.size_bytes for file in plan.changelogs if file.batch_id > after)
    ranges = () if source is None else source.ranges
    return changelogs + sum(
        stored.size_bytes for part in ranges for stored in part.files if stored.path
    )
