"""Restores of a job after its state server was killed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.recovery.stored_job import StoredJob

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CASES = {
    "copies": "RocksDB files, the executor's own copies (kill -9 of the server)",
    "download": "RocksDB files, read from the root (the executor is gone, too)",
    "rescaled": "RocksDB files, read for another parallelism (2 to 3, 3 to 2)",
    "savepoint": "canonical savepoint into RocksDB, a new job",
    "canonical": "canonical checkpoint into the heap",
}


@dataclass(frozen=True)
class RestoreSample:
    """One restore."""

    start_s: float
    """Seconds until the state server is up."""
    restore_s: float
    """Seconds from then until the first batch, of one key, is committed."""


def measure_restores(folder: Path, keys: int, rounds: int) -> dict[str, list[RestoreSample]]:
    """Runs every case `rounds` times and checks the restored state; samples by case."""
    samples: dict[str, list[RestoreSample]] = {name: [] for name in CASES}
    with StoredJob(folder / "restore-rocksdb", keys=keys, backend="rocksdb") as job:
        job.load()
        job.checkpoint()
        for _ in range(rounds):
            samples["copies"].append(_restored(job, lambda: job.kill_server()))
            samples["download"].append(_restored(job, lambda: job.kill_server(with_copies=True)))
            # A restore writes new files: the next round must find them in a checkpoint.
            job.checkpoint()
        for _ in range(rounds):
            samples["rescaled"].append(_restored(job, lambda: job.run_again(5 - job.parallelism)))
            job.checkpoint()
        savepoint = job.savepoint()
        samples["savepoint"].append(_restored(job, lambda: job.start_from(savepoint)))
    with StoredJob(folder / "restore-heap", keys=keys, backend="heap") as job:
        job.load()
        job.checkpoint()
        for _ in range(rounds):
            samples["canonical"].append(_restored(job, lambda: job.kill_server()))
    return samples


def _restored(job: StoredJob, fail: Callable[[], None]) -> RestoreSample:
    fail()
    began = time.perf_counter()
    job.start_server()
    started = time.perf_counter()
    job.write(job.some_keys(1))
    ended = time.perf_counter()
    job.check()
    return RestoreSample(start_s=started - began, restore_s=ended - started)
