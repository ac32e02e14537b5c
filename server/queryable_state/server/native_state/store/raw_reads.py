"""Raw records of one state partition, as layouts read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queryable_state.server.native_state.store.batch_times import BatchTimes
    from queryable_state.server.storage.store import StateStore, StateView


class CommittedReads:
    """The committed raw records, read on the event loop; `native_state.operators` reads them.

    It follows its store: the next read after a commit is of the newer batch.
    """

    __slots__ = ("_batch_times", "_store")

    def __init__(self, store: Callable[[], StateStore], batch_times: BatchTimes) -> None:
        """`store` returns the store of the raw records, which a newer snapshot may replace."""
        self._store = store
        self._batch_times = batch_times

    @property
    def batch_time_ms(self) -> int:
        """Timestamp of the committed batch, milliseconds since the epoch."""
        return self._batch_times.at(self._store().committed_version)

    def get(self, source: int, key: bytes) -> bytes | None:
        """The raw value of a raw key."""
        return self._store().reader(source)(key)

    def prefix(self, source: int, prefix: bytes, limit: int = 0) -> list[tuple[bytes, bytes]]:
        """Raw records whose key starts with `prefix`."""
        return self._store().prefix(source, prefix, limit=limit)


class ViewReads:
    """The raw records of a view, read on the background thread."""

    __slots__ = ("_view", "batch_time_ms")

    def __init__(self, view: StateView, batch_time_ms: int) -> None:
        self._view = view
        self.batch_time_ms = batch_time_ms

    def get(self, source: int, key: bytes) -> bytes | None:
        """The raw value of a raw key."""
        return self._view.get(source, key)

    def prefix(self, source: int, prefix: bytes, limit: int = 0) -> list[tuple[bytes, bytes]]:
        """Raw records whose key starts with `prefix`."""
        return self._view.prefix(source, prefix, limit)

    def scan(self, source: int, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Raw records with start <= key < end."""
        return self._view.scan(source, start, end)
