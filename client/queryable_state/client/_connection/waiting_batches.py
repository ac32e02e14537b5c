"""Batches that wait for a connection to a server, or for room on it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.client._connection.batch import Batch
    from queryable_state.client._connection.connection import Connection


class WaitingBatches:
    """Two queues: batches that wait for the window, and those that may wait for a commit.

    The latter find the window as wide as it may be. `send` takes a batch and its connection.
    """

    def __init__(self, send: Callable[[Connection, Batch], None]) -> None:
        self._send = send
        self._queue: deque[Batch] = deque()
        self._patient: deque[Batch] = deque()

    def __bool__(self) -> bool:
        """Whether any waits."""
        return bool(self._queue or self._patient)

    def add(self, batch: Batch, most_keys: int) -> bool:
        """Puts a batch behind the others; False where it was joined to the last of them."""
        queue = self._queue
        if queue and queue[-1].takes(batch, most_keys):
            return False
        queue.append(batch)
        return True

    def add_patient(self, batch: Batch) -> None:
        """Puts a batch behind the others that may wait for a commit."""
        self._patient.append(batch)

    def is_wanted(self) -> bool:
        """Whether one is not done, of those that wait for the window."""
        return any(not batch.done for batch in self._queue)

    def pump(self, connection: Connection) -> None:
        """Sends as many as there is room for."""
        queue = self._queue
        while queue and connection.has_room:
            batch = queue.popleft()
            if batch.done:
                continue
            if batch.batcher.may_wait:
                self._patient.append(batch)
            else:
                self._send(connection, batch)
        if self._patient:
            self.pump_patient(connection)

    def pump_patient(self, connection: Connection) -> None:
        """Sends as many of those that may wait for a commit as the server takes at a time."""
        patient = self._patient
        while patient:
            batch = patient[0]
            if batch.done:
                patient.popleft()
            elif connection.widen(batch):
                patient.popleft()
                self._send(connection, batch)
            else:
                return

    def take_all(self) -> list[Batch]:
        """Gives up all that are not done."""
        waiting = [batch for batch in (*self._queue, *self._patient) if not batch.done]
        self._queue.clear()
        self._patient.clear()
        return waiting
