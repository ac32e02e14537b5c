"""`python -m benchmarks.capacity.timers`: due timers among many pending ones, in one store.

Each key has one event-time timer, at a millisecond of its own, in random order. Batches fire the
next timers in time order and register each again at the end. Measured are the parts of a state
server's work: the first page of due timers at a begin, all pages of a sweep, the overlay and the
next timers at a seal, and the compaction. Costs of a timer are CPU time of the thread that does
the work, so that they do not depend on other programs. Every sweep is checked.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.arguments import add_common_arguments, chosen, write_run
from benchmarks.figures import percentile, table
from benchmarks.machine import Machine, NoiseMeter
from benchmarks.signals import exit_on_signal
from queryable_state.internal.v1.backend_pb2 import DueQuery
from queryable_state.internal.v1.changes_pb2 import ChangeBlock
from queryable_state.server.state_server.stores.due_timers import first_due
from queryable_state.server.storage.heap.store import HeapStateStore
from queryable_state.server.storage.overlay import OverlayBuilder
from queryable_state.server.storage.rocksdb.store import RocksDBStateStore
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE
from queryable_state.wire.keys.timer_keys import Clock, store_key_of, timer_element, timer_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from queryable_state.server.storage.store import StateStore

BACKENDS = ("rocksdb", "heap")
SIZES = (100_000, 1_000_000)
LONG = 10_000_000
STATE_ID = 1
KEY_GROUPS = 128
BEGINS = 500
SWEEPS = 5
FIRED = 20_000
"""Timers of a sweep."""
MANY = 100_000
"""Timers of the one sweep that is larger."""
_LOAD_RECORDS = 4096
_STRIDE = 7_368_787
"""Prime: the timestamps of keys in order are this far apart, modulo the number of timers."""


@dataclass
class Row:
    """Figures of one backend and number of pending timers."""

    backend: str
    pending: int
    load_s: float
    begin_us: list[int] = dataclasses.field(default_factory=list)
    """Begins with none due, each after a sweep: before and after its compaction."""
    read_us: list[float] = dataclasses.field(default_factory=list)
    """CPU time of each due timer, by sweep; the last sweep is the larger."""
    seal_us: list[float] = dataclasses.field(default_factory=list)
    """Of each timer fired and registered again."""
    compact_us: list[float] = dataclasses.field(default_factory=list)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.capacity.timers", description=__doc__
    )
    parser.add_argument("--backends", default=",".join(BACKENDS), help="some of: %(default)s")
    parser.add_argument("--timers", help="comma-separated; 100000,1000000 unless given")
    parser.add_argument("--long", action="store_true", help="also 10,000,000 timers in RocksDB")
    add_common_arguments(parser, quick="100,000 timers")
    options = parser.parse_args()
    sizes = tuple(map(int, options.timers.split(","))) if options.timers else SIZES
    if options.quick:
        sizes = SIZES[:1]
    runs = [
        (backend, size)
        for backend in chosen(parser, options.backends, BACKENDS, "backend")
        for size in ((*sizes, LONG) if options.long and backend == "rocksdb" else sizes)
    ]
    exit_on_signal()
    machine, meter = Machine.here(), NoiseMeter()
    rows = [measure(backend, size) for backend, size in runs]
    print("\n".join([*machine.lines(), meter.line()]))
    print()
    print(report(rows))
    write_run(options, machine, meter, {"rows": [dataclasses.asdict(row) for row in rows]})
    return 0


def measure(backend: str, pending: int) -> Row:
    """Fills a store and fires some of its timers."""
    with tempfile.TemporaryDirectory(prefix="benchmark-timers-") as folder:
        path = Path(folder) / "store"
        store = HeapStateStore(0) if backend == "heap" else RocksDBStateStore(path, None, 0)
        with store:
            began = time.perf_counter()
            store.add_state(STATE_ID, timers=True)
            with store.bulk_load() as load:
                records = _records(pending)
                while some := list(islice(records, _LOAD_RECORDS)):
                    load.put(STATE_ID, some)
            row = Row(backend, pending, time.perf_counter() - began)
            fired = 0
            for count in (*[FIRED] * SWEEPS, MANY):
                count = min(count, pending // 10)
                _sweep(store, row, fired, count)
                fired += count
    return row


def _sweep(store: StateStore, row: Row, fired: int, count: int) -> None:
    version = store.committed_version
    timers: list[bytes] = []
    began = time.thread_time_ns()
    page = first_due(store, version, STATE_ID, _query(fired + count))
    timers += page.timers
    while page.has_more:
        page = first_due(store, version, STATE_ID, _query(fired + count, timers[-1]))
        timers += page.timers
    row.read_us.append((time.thread_time_ns() - began) / count / 1000)
    times = [timer_of(timer[:9])[1] for timer in timers]
    if times != list(range(fired + 1, fired + count + 1)):
        raise RuntimeError(f"wrong timers are due after {fired}: {times[:3]} ... {times[-3:]}")

    keys = list(map(store_key_of, timers))
    again = [
        key[:-9] + timer_element(Clock.EVENT_TIME, row.pending + at)
        for key, at in zip(keys, times, strict=True)
    ]
    block = ChangeBlock(
        state_id=STATE_ID, deleted_keys=keys, put_keys=again, put_values=[b""] * count
    )
    began = time.thread_time_ns()
    builder = OverlayBuilder()
    builder.add_block(block)
    overlay = builder.build()
    pending = store.next_timers(STATE_ID, overlay)
    row.seal_us.append((time.thread_time_ns() - began) / count / 1000)
    if pending.event_time_ms != fired + count + 1:
        raise RuntimeError(f"the next timer after {fired + count} is {pending}")
    store.seal(version + 1, overlay, (1, version + 1))
    store.commit(version + 1)

    _begins(store, row, fired + count)
    began = time.thread_time_ns()
    while store.compact(version + 1, 1024):
        pass
    row.compact_us.append((time.thread_time_ns() - began) / count / 1000)
    _begins(store, row, fired + count)


def _begins(store: StateStore, row: Row, watermark_ms: int) -> None:
    for _ in range(BEGINS):
        began = time.perf_counter_ns()
        page = first_due(store, store.committed_version, STATE_ID, _query(watermark_ms))
        row.begin_us.append((time.perf_counter_ns() - began) // 1000)
        if page.timers:
            raise RuntimeError(f"{len(page.timers)} timers are due at {watermark_ms} again")


def _query(watermark_ms: int, after: bytes = b"") -> DueQuery:
    return DueQuery(processing_time_ms=watermark_ms, event_time_ms=watermark_ms, after=after)


def _records(pending: int) -> Iterator[tuple[bytes, bytes]]:
    """Timers in the order of their store keys; their timestamps are 1 to `pending`, in no order."""
    number = 0
    for group in range(KEY_GROUPS):
        prefix = group.to_bytes(2)
        for _ in range(pending * group // KEY_GROUPS, pending * (group + 1) // KEY_GROUPS):
            number += 1
            element = timer_element(Clock.EVENT_TIME, number * _STRIDE % pending + 1)
            yield prefix + b"hkey %011d\x00" % number + VOID_NAMESPACE + element, b""


def report(rows: Sequence[Row]) -> str:
    """The table of all figures."""
    header = (
        "Pending timers",
        "load s",
        "begin p50 us",
        "begin p99 us",
        "due CPU us",
        "seal CPU us",
        "compact CPU us",
    )
    return table(
        header,
        [
            (
                f"{row.pending:,} ({row.backend})",
                f"{row.load_s:.1f}",
                str(percentile(sorted(row.begin_us), 0.5)),
                str(percentile(sorted(row.begin_us), 0.99)),
                *(
                    f"{sorted(of)[len(of) // 2]:.2f}"
                    for of in (row.read_us, row.seal_us, row.compact_us)
                ),
            )
            for row in rows
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
