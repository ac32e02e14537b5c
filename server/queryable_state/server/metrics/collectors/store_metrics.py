"""Metrics of RocksDB, summed over the stores of a state server."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from queryable_state.server.metrics.families import gauge

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client import Metric

    from queryable_state.server.state_server.base.background_thread import BackgroundThread
    from queryable_state.server.state_server.stores.store_table import StoreTable

# The background thread may compact, or write a snapshot, for some time.
_WAIT_S = 5.0

_TEXTS = {
    "estimate-num-keys": "Records, as RocksDB estimates them.",
    "total-sst-files-size": "Bytes of table files on disk.",
    "cur-size-all-mem-tables": "Bytes of memtables that are not flushed.",
    "estimate-table-readers-mem": "Bytes of memory for reading tables, beyond the block cache.",
    "estimate-pending-compaction-bytes": "Bytes that compactions have to rewrite.",
    "num-running-compactions": "Running compactions.",
    "num-running-flushes": "Running flushes of memtables.",
    "num-snapshots": "Snapshots that are not released.",
    "is-write-stopped": "Column families of which RocksDB has stopped the writes.",
    "background-errors": "Errors of flushes and compactions.",
}


class StoreMetrics:
    """Collector of the properties of RocksDB. None are yielded with the heap backend."""

    def __init__(self, table: StoreTable, background: BackgroundThread) -> None:
        self._table = table
        self._background = background

    def collect(self) -> Iterator[Metric]:
        """Yields the families; without samples if the background thread is busy for 5 s."""
        found = self._background.submit(self._read).result(_WAIT_S)
        for name, text in _TEXTS.items():
            samples = [((), found[name])] if name in found else []
            yield gauge(f"rocksdb_{name.replace('-', '_')}", text, samples=samples)

    def _read(self) -> Mapping[str, int]:
        # On the thread that closes stores: those in the table are open.
        found: Counter[str] = Counter()
        for subtask in self._table.subtasks_now():
            for name, number in subtask.store.properties().items():
                found[name] += number
        return found
