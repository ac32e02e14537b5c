"""Run epochs: the part of a fencing token that grows with every run of a query."""

from __future__ import annotations

import threading
from typing import Protocol


class EpochStore(Protocol):
    """Allocator of epochs: each run gets a larger one than all runs before.

    A job's `StateRoot` is one. Its epochs are durable, and no two drivers get the same.
    """

    def allocate_epoch(self, run_id: bytes) -> int:
        """Allocates an epoch, 1 or more; a durable store has written it before this returns."""
        ...


class MemoryEpochStore:
    """Epochs of one driver, for state that ends with it.

    One store serves all queries. Not thread-safe.
    """

    def __init__(self) -> None:
        self._newest = 0

    def allocate_epoch(self, run_id: bytes) -> int:
        """The next epoch of this driver."""
        self._newest += 1
        return self._newest


class Epochs:
    """Epoch of the newest run of each query. Thread-safe."""

    def __init__(self) -> None:
        # Apart from the coordinator's lock, because allocation is I/O.
        self._lock = threading.Lock()
        self._memory = MemoryEpochStore()
        self._newest: dict[bytes, tuple[bytes, int]] = {}

    def find(self, query_id: bytes, run_id: bytes) -> int | None:
        """The run's epoch; None if it has none, or a newer run has one."""
        with self._lock:
            newest_run, epoch = self._newest.get(query_id, (b"", 0))
            return epoch if newest_run == run_id else None

    def newest(self, query_id: bytes) -> int:
        """The epoch of the query's newest run in this driver; 0: none."""
        with self._lock:
            return self._newest.get(query_id, (b"", 0))[1]

    def of(self, query_id: bytes, run_id: bytes, store: EpochStore | None = None) -> int:
        """The run's epoch, allocated by the first call; from memory without a store.

        It is larger than that of the run before, even if that run had another store.
        """
        with self._lock:
            newest_run, newest = self._newest.get(query_id, (b"", 0))
            if newest_run == run_id:
                return newest
            epoch = (store or self._memory).allocate_epoch(run_id)
            while epoch <= newest:
                epoch = (store or self._memory).allocate_epoch(run_id)
            self._newest[query_id] = (run_id, epoch)
            return epoch

    def forget(self, query_id: bytes) -> None:
        """Forgets a dropped query: no server has state of its runs any more."""
        with self._lock:
            self._newest.pop(query_id, None)
