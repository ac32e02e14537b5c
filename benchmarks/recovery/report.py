"""Tables of `python -m benchmarks.recovery`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.figures import Spread, table, thousands
from benchmarks.recovery.changelogs import WAYS
from benchmarks.recovery.restores import CASES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.recovery.restores import RestoreSample
    from benchmarks.recovery.snapshots import Slowdown, SnapshotSizes
    from benchmarks.streaming.runs import VariantRun


def restores(samples: Mapping[str, Sequence[RestoreSample]], keys: int) -> str:
    """Seconds until a server is up and then until it has the state."""
    rows = []
    for case, of_case in samples.items():
        starts = Spread.of([sample.start_s for sample in of_case])
        spread = Spread.of([sample.restore_s for sample in of_case])
        rows.append(
            [
                CASES[case],
                f"{starts.median:.2f}",
                f"{spread.median:.2f}",
                f"{spread.lowest:.2f}-{spread.highest:.2f}",
                thousands(keys / spread.median),
            ]
        )
    header = [f"restore of {keys:,} keys", "server up, s", "restored, s", "range", "keys/s"]
    return table(header, rows)


def sizes(written: Mapping[str, SnapshotSizes]) -> str:
    """Bytes of a full checkpoint and of the next one."""
    rows = [
        [
            backend,
            _mib(each.full_bytes),
            f"{each.full_ms}",
            f"{each.touched_keys:,}",
            _mib(each.increment_bytes),
            f"{each.increment_bytes / each.full_bytes:.1%}",
            f"{each.increment_ms}",
        ]
        for backend, each in written.items()
    ]
    header = ["checkpoint", "full, MiB", "ms", "keys touched", "next, MiB", "of full", "ms"]
    return table(header, rows)


def slowdown(slowed: Slowdown, keys: int) -> str:
    """Milliseconds of batches during snapshots and between them."""
    rows = []
    for name, values in (("between", slowed.alone_ms), ("during", slowed.beside_ms)):
        ordered = sorted(values)
        rows.append(
            [
                f"batches of {keys:,} keys, {name} snapshots",
                str(len(ordered)),
                *(_at(ordered, share) for share in (0.5, 0.9, 0.99, 1.0)),
            ]
        )
    snapshots = Spread.of(slowed.snapshot_ms)
    note = (
        f"{slowed.snapshots} full snapshots, {snapshots.median:.0f} ms each "
        f"({snapshots.lowest:.0f}-{snapshots.highest:.0f})"
    )
    header = ["batches", "number", "p50, ms", "p90", "p99", "longest"]
    return table(header, rows) + "\n" + note


def changelogs(runs: Mapping[str, Sequence[VariantRun]]) -> str:
    """Rows a second of each way, and the ratio to no durable copy."""
    medians = {
        way: Spread.of([rate for run in of_way for rate in run.rows_per_second])
        for way, of_way in runs.items()
    }
    rows = []
    for way, spread in medians.items():
        by_run = [Spread.of(run.rows_per_second).median for run in runs[way]]
        rows.append(
            [
                f"{WAYS[way][0]} (`{way}`)",
                thousands(spread.median),
                f"{thousands(min(by_run))}-{thousands(max(by_run))}",
                str(spread.count),
                f"{spread.median / medians['off'].median:.2f}",
            ]
        )
    return table(["durable copy", "rows/s", "runs", "batches", "/ off"], rows)


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.2f}"


def _at(ordered: Sequence[float], share: float) -> str:
    """A percentile of the values; 1.0 is the maximum."""
    if not ordered:
        return "-"
    return f"{ordered[min(len(ordered) - 1, int(share * len(ordered)))]:.1f}"
