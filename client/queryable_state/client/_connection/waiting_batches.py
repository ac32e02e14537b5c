"""Batches queued for one server connection."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.client._batching.batch import Batch
    from queryable_state.client._connection.connection import Connection


class WaitingBatches:
    """Two queues: ordinary batches, and commit waiters (`KeyBatcher.may_wait`).

    A commit waiter is queued only while the window has its maximum width.
    """

    def __init__(self, send: Callable[[Connection, Batch], None]) -> None:
        self._send = send
        self._queue: deque[Batch] = deque()
        self._commit_waiters: deque[Batch] = deque()

    def __bool__(self) -> bool:
        """True if a batch is queued."""
        return bool(self._queue or self._commit_waiters)

    def add(self, batch: Batch, most_keys: int) -> bool:
        """Queues a batch; False if its keys were joined to the last queued batch instead."""
        queue = self._queue
        if queue and queue[-1].join(batch, most_keys):
            return False
        queue.append(batch)
        return True

    def add_commit_waiter(self, batch: Batch) -> None:
        """Queues a batch that may wait for a commit."""
        self._commit_waiters.append(batch)

    def has_pending(self) -> bool:
        """True if an ordinary batch that is not done is queued."""
        return any(not batch.done for batch in self._queue)

    def pump(self, connection: Connection) -> None:
        """Sends as many batches as the window has room for."""
        queue = self._queue
        while queue and connection.has_room:
            batch = queue.popleft()
            if batch.done:
                continue
            if batch.batcher.may_wait:
                self._commit_waiters.append(batch)
            else:
                self._send(connection, batch)
        if self._commit_waiters:
            self.pump_commit_waiters(connection)

    def pump_commit_waiters(self, connection: Connection) -> None:
        """Sends commit waiters while the window can be widened."""
        waiters = self._commit_waiters
        while waiters:
            batch = waiters[0]
            if batch.done:
                waiters.popleft()
            elif connection.widen(batch):
                waiters.popleft()
                self._send(connection, batch)
            else:
                return

    def take_all(self) -> list[Batch]:
        """Removes all batches; returns those that are not done."""
        waiting = [batch for batch in (*self._queue, *self._commit_waiters) if not batch.done]
        self._queue.clear()
        self._commit_waiters.clear()
        return waiting
