"""Run epochs: the half of a token that grows with every run of a query."""

from __future__ import annotations

import threading
from typing import Protocol


class EpochStore(Protocol):
    """Gives each run a number above those of all runs before it.

    A job's `StateRoot` is one: its epochs are durable, and one driver's alone.
    """

    def allocate_epoch(self, run_id: bytes) -> int:
        """A new epoch, 1 or more; durable, where the store is, before it returns."""
        ...


class MemoryEpochStore:
    """Epochs that grow as long as the driver lives, for state that lives no longer.

    One store serves all queries. Not thread-safe.
    """

    def __init__(self) -> None:
        self._newest = 0

    def allocate_epoch(self, run_id: bytes) -> int:
        """The next epoch of this driver."""
        self._newest += 1
        return self._newest


class Epochs:
    """The epoch of the newest run of each query, one allocation a run. Thread-safe."""

    def __init__(self) -> None:
        # Apart from the coordinator's lock, because allocation is I/O.
        self._lock = threading.Lock()
        self._memory = MemoryEpochStore()
        self._newest: dict[bytes, tuple[bytes, int]] = {}

    def find(self, query_id: bytes, run_id: bytes) -> int | None:
        """The run's epoch; None where it has none, or a newer run has taken over."""
        with self._lock:
            newest_run, epoch = self._newest.get(query_id, (b"", 0))
            return epoch if newest_run == run_id else None

    def newest(self, query_id: bytes) -> int:
        """The epoch of the query's newest run here; 0: it has had none."""
        with self._lock:
            return self._newest.get(query_id, (b"", 0))[1]

    def of(self, query_id: bytes, run_id: bytes, store: EpochStore | None = None) -> int:
        """The run's epoch, allocated when first asked for; without a store in memory.

        It is above that of the run before, also where that one had another store.
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
        """Forgets a dropped query: no server has anything of its runs any more."""
        with self._lock:
            self._newest.pop(query_id, None)
