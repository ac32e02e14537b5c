"""Rows a second of a Spark job with and without a durable copy of its state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.streaming.dataset import Dataset
from benchmarks.streaming.runs import VariantRun, run_variant
from benchmarks.streaming.workloads import VARIANTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_NO_SNAPSHOTS = "24 h"

WAYS: dict[str, tuple[str, dict[str, str]]] = {
    "off": ("no durable copy", {"spark.queryable_state.changelog": "off"}),
    "on": (
        "changelog of every batch",
        {"execution.checkpointing.interval": _NO_SNAPSHOTS},
    ),
    "fsync": (
        "changelog of every batch, forced to disk",
        {
            "execution.checkpointing.interval": _NO_SNAPSHOTS,
            "spark.queryable_state.fsync": "true",
        },
    ),
    "snapshots": (
        "changelog of every batch, a snapshot every second",
        {"execution.checkpointing.interval": "1 s"},
    ),
}


def measure_changelogs(
    folder: Path,
    variant: str,
    *,
    rows: int,
    rounds: int,
    warm_up: int,
    log: Callable[[str], None],
) -> dict[str, list[VariantRun]]:
    """Runs each way in turn, every other round in reverse order, and checks the final states.

    The workload is that of `benchmarks.streaming`: 10,000 keys, 200,000 rows a batch.
    """
    rows_per_batch = min(200_000, rows // 5)
    dataset = Dataset(
        folder / "changelog-data",
        batches=-(-rows // rows_per_batch),
        rows_per_batch=rows_per_batch,
        keys=10_000,
    )
    dataset.write()
    (chosen,) = (each for each in VARIANTS if each.name == variant)
    runs: dict[str, list[VariantRun]] = {name: [] for name in WAYS}
    for number in range(rounds):
        for name in WAYS if number % 2 == 0 else reversed(WAYS):
            run = run_variant(
                chosen, dataset, folder / "changelog-run", warm_up=warm_up, conf=WAYS[name][1]
            )
            runs[name].append(run)
            log(f"round {number + 1}: {variant}, {name}: the final state was right")
    return runs
