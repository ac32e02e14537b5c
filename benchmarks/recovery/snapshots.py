"""Sizes of checkpoints, and durations of batches during checkpoints."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.recovery.stored_job import StoredJob

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.server.settings.shared_settings import Backend

QUIET_S = 1.5
"""Pause between two snapshots, so that batches without a snapshot are as frequent."""


@dataclass(frozen=True)
class SnapshotSizes:
    """Two checkpoints of one job, the second after some keys were written."""

    full_bytes: int
    full_ms: int
    touched_keys: int
    increment_bytes: int
    increment_ms: int


@dataclass(frozen=True)
class Slowdown:
    """Milliseconds of batches during a snapshot (`beside_ms`) and of the others."""

    snapshots: int
    beside_ms: list[float]
    alone_ms: list[float]
    snapshot_ms: list[int]


def measure_sizes(folder: Path, keys: int) -> dict[str, SnapshotSizes]:
    """Takes a checkpoint of all keys, and one after a hundredth of them got new values."""
    sizes: dict[str, SnapshotSizes] = {}
    backends: tuple[Backend, ...] = ("rocksdb", "heap")
    for backend in backends:
        with StoredJob(folder / f"sizes-{backend}", keys=keys, backend=backend) as job:
            job.load()
            full = job.checkpoint()
            touched = keys // 100
            job.write(job.some_keys(touched))
            increment = job.checkpoint()
            sizes[backend] = SnapshotSizes(
                full_bytes=full.new_bytes,
                full_ms=full.duration_ms,
                touched_keys=touched,
                increment_bytes=increment.new_bytes,
                increment_ms=increment.duration_ms,
            )
    return sizes


def measure_slowdown(folder: Path, keys: int, seconds: float, rows: int) -> Slowdown:
    """Runs batches of `rows` keys without a pause, and full checkpoints with pauses."""
    with StoredJob(folder / "slowdown", keys=keys, backend="rocksdb", incremental=False) as job:
        job.load()
        job.checkpoint()
        spans: list[tuple[float, float]] = []
        snapshot_ms: list[int] = []
        stop = threading.Event()

        def snap() -> None:
            while not stop.wait(QUIET_S):
                began = time.perf_counter()
                snapshot_ms.append(job.checkpoint().duration_ms)
                spans.append((began, time.perf_counter()))

        thread = threading.Thread(target=snap, name="snapshots")
        thread.start()
        batches = []
        try:
            ends = time.perf_counter() + seconds
            while time.perf_counter() < ends:
                began = time.perf_counter()
                job.write(job.some_keys(rows))
                batches.append((began, time.perf_counter()))
        finally:
            stop.set()
            thread.join()
        job.check()
    beside: list[float] = []
    alone: list[float] = []
    for began, ended in batches:
        overlaps = any(began < end and begin < ended for begin, end in spans)
        (beside if overlaps else alone).append((ended - began) * 1000)
    return Slowdown(len(spans), beside, alone, snapshot_ms)
