"""History of one subtask: the changes of its newest committed batches, for watches."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from queryable_state.server.storage.store import NOTHING_COMMITTED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from queryable_state.server.storage.overlay import Overlay

MOST_BATCHES = 64
"""Batches with changes that a history keeps at most."""

DEFAULT_BYTES = 16 << 20
"""Bytes of changes that the histories of one job keep on one server, unless set otherwise."""

# Measured with sys.getsizeof: two bytes objects, and their entry in the overlay's dictionary.
_RECORD_OVERHEAD = 160

OldValues = dict[bytes, bytes | None]


class BatchChanges:
    """The changes of a subtask in one committed batch; the overlay is the one it had in its store.

    Event loop only.
    """

    __slots__ = ("batch_id", "commit_time_ms", "old", "overlay", "size_bytes")

    def __init__(self, batch_id: int, commit_time_ms: int, overlay: Overlay) -> None:
        self.batch_id = batch_id
        self.commit_time_ms = commit_time_ms
        """Milliseconds since the epoch; 0: unknown."""
        self.overlay = overlay
        self.old: dict[int, OldValues] = {}
        """Values before the batch, by state id and store key, as far as a watch wanted them."""
        self.size_bytes = overlay.size_bytes + overlay.record_count * _RECORD_OVERHEAD


class ChangeHistory:
    """The newest batches of one subtask that changed it, bounded in number and bytes.

    It refers to overlays that the store had anyway: a commit adds one reference, and nothing is
    decoded. Event loop only; a restore fills it before it is shared.
    """

    def __init__(self, since: int) -> None:
        self.since = since
        """Every change of the batches after this one is here."""
        self._batches: deque[BatchChanges] = deque()
        self._bytes = 0

    def add(
        self, batch_id: int, commit_time_ms: int, overlay: Overlay, most_bytes: int
    ) -> BatchChanges:
        """Appends the newest batch; drops the oldest ones above the bounds."""
        changes = BatchChanges(batch_id, commit_time_ms, overlay)
        self._batches.append(changes)
        self._bytes += changes.size_bytes
        while self._batches and (self._bytes > most_bytes or len(self._batches) > MOST_BATCHES):
            dropped = self._batches.popleft()
            self._bytes -= dropped.size_bytes
            self.since = dropped.batch_id
        return changes

    def lost(self, batch_id: int) -> None:
        """Forgets everything up to a batch whose changes are unknown."""
        self._batches.clear()
        self._bytes, self.since = 0, batch_id

    def remember(
        self, changes: BatchChanges, state_id: int, old: Mapping[bytes, bytes | None]
    ) -> None:
        """Keeps values before a batch, while the batch is in the history."""
        size_bytes = sum(len(value or b"") + _RECORD_OVERHEAD for value in old.values())
        changes.old.setdefault(state_id, {}).update(old)
        changes.size_bytes += size_bytes
        if changes.batch_id > self.since:
            self._bytes += size_bytes

    def after(self, batch_id: int) -> Iterator[BatchChanges]:
        """The kept batches after this one, oldest first."""
        return (each for each in self._batches if each.batch_id > batch_id)

    def value_before(self, batch_id: int, state_id: int, key: bytes) -> tuple[bool, bytes | None]:
        """Whether the history knows the value of a store key before a batch, and the value."""
        for each in reversed(self._batches):
            if each.batch_id > batch_id:
                continue
            if each.batch_id == batch_id:
                old = each.old.get(state_id, {})
                if key in old:
                    return True, old[key]
                continue
            overlay = each.overlay.states.get(state_id)
            if overlay is None:
                continue
            if key in overlay.records:
                return True, overlay.records[key]
            if overlay.hides(key):
                return True, None
        # Without an older batch there was no value.
        return self.since == NOTHING_COMMITTED, None
