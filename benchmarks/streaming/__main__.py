"""`python -m benchmarks.streaming`: rows a second of keyed operators, ours beside Spark's.

Every variant of a workload reads the same parquet files in batches of equal size into a noop sink
on local[2,4], with state in RocksDB and changelogs, each time in a fresh JVM. The variants
alternate, every other round in reverse order. The rows a second of a batch are its rows divided by
Spark's trigger duration; the first batches of a run are not counted. The final state of each run is
compared with that of the dataset.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypeVar

from benchmarks.arguments import add_common_arguments, write_run
from benchmarks.figures import Spread, table, thousands
from benchmarks.machine import Machine, NoiseMeter
from benchmarks.signals import exit_on_signal
from benchmarks.streaming.runs import VariantRun, run_variant
from benchmarks.streaming.workloads import REFERENCES, VARIANTS, WORKLOADS, Variant, Workload

_T = TypeVar("_T")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streaming", description=__doc__)
    parser.add_argument("--workloads", help="comma-separated; default: all")
    parser.add_argument("--variants", help="comma-separated; default: all")
    parser.add_argument("--rows", type=int, help="of each workload, with as many batches")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each variant")
    add_common_arguments(parser, quick="a tenth of the rows, one round")
    options = parser.parse_args()
    exit_on_signal()
    workloads = _named(parser, "workload", options.workloads, {w.name: w for w in WORKLOADS})
    variants = _named(parser, "variant", options.variants, {v.name: v for v in VARIANTS})
    if options.quick:
        options.rounds = 1
        workloads = [workload.quick() for workload in workloads]
    if options.rows:
        workloads = [_of_rows(workload, options.rows) for workload in workloads]

    machine, meter = Machine.here(), NoiseMeter()
    measured = {}
    with tempfile.TemporaryDirectory(prefix="benchmark-streaming-") as folder:
        for workload in workloads:
            chosen = [variant for variant in variants if variant.name in workload.variants]
            measured[workload] = measure(workload, chosen, Path(folder), options.rounds)
    print()
    print("\n".join(machine.lines()))
    print(meter.line())
    for workload, runs in measured.items():
        print(
            f"\n{workload.name}: {workload.rows:,} rows, {workload.keys:,} keys, "
            f"{workload.rows_per_batch:,} rows a batch; {options.rounds} rounds, "
            f"{workload.warm_up} batches of warm-up in each"
        )
        print(report(runs))
    by_workload = {
        workload.name: {"of": asdict(workload), "variants": figures(runs)}
        for workload, runs in measured.items()
    }
    write_run(options, machine, meter, {"workloads": by_workload})
    return 0


def measure(
    workload: Workload, chosen: list[Variant], folder: Path, rounds: int
) -> dict[Variant, list[VariantRun]]:
    """The runs of each variant."""
    dataset = workload.dataset(folder / workload.name)
    dataset.write()
    conf = {}
    if workload.checkpoint_interval_ms:
        conf["execution.checkpointing.interval"] = f"{workload.checkpoint_interval_ms} ms"
    runs: dict[Variant, list[VariantRun]] = {variant: [] for variant in chosen}
    for number in range(rounds):
        for variant in chosen if number % 2 == 0 else reversed(chosen):
            began = time.monotonic()
            run = run_variant(variant, dataset, folder / "run", warm_up=workload.warm_up, conf=conf)
            runs[variant].append(run)
            print(
                f"{workload.name}, round {number + 1}: {variant.name:14} "
                f"{thousands(Spread.of(run.rows_per_second).median):>6} rows/s, right "
                f"({time.monotonic() - began:.0f} s)",
                file=sys.stderr,
                flush=True,
            )
    return runs


def figures(runs: dict[Variant, list[VariantRun]]) -> list[dict[str, object]]:
    """Rows a second of the warm batches of each variant, and the ratios to the references."""
    medians = _medians(runs)
    return [
        {
            "name": variant.name,
            "title": variant.title,
            "rows_per_second": asdict(medians[variant.name]),
            "ratios": _ratios(medians, variant.name),
            "runs": [asdict(run) for run in of_one],
        }
        for variant, of_one in runs.items()
    ]


def report(runs: dict[Variant, list[VariantRun]]) -> str:
    """The figures as a table, with the range of the runs' medians."""
    medians = _medians(runs)
    references = [name for name in REFERENCES if name in medians]
    header = ["variant", "rows/s", "runs", "batches", *(f"/ {name}" for name in references)]
    rows = []
    for variant, of_one in runs.items():
        by_run = [Spread.of(run.rows_per_second).median for run in of_one]
        spread = medians[variant.name]
        rows.append(
            [
                f"{variant.title} (`{variant.name}`)",
                thousands(spread.median),
                f"{thousands(min(by_run))}-{thousands(max(by_run))}",
                str(spread.count),
                *(f"{ratio:.2f}" for ratio in _ratios(medians, variant.name).values()),
            ]
        )
    return table(header, rows)


def _medians(runs: dict[Variant, list[VariantRun]]) -> dict[str, Spread]:
    return {
        variant.name: Spread.of([rate for run in of_one for rate in run.rows_per_second])
        for variant, of_one in runs.items()
    }


def _ratios(medians: dict[str, Spread], name: str) -> dict[str, float]:
    return {
        reference: medians[name].median / medians[reference].median
        for reference in REFERENCES
        if reference in medians
    }


def _of_rows(workload: Workload, rows: int) -> Workload:
    keys = rows if workload.keys == workload.rows else workload.keys
    return replace(workload, rows=rows, rows_per_batch=-(-rows // workload.batches), keys=keys)


def _named(
    parser: argparse.ArgumentParser, noun: str, names: str | None, known: dict[str, _T]
) -> list[_T]:
    wanted = names.split(",") if names else list(known)
    unknown = set(wanted) - known.keys()
    if unknown:
        parser.error(f"unknown {noun}: {', '.join(sorted(unknown))}; known are {', '.join(known)}")
    return [value for name, value in known.items() if name in wanted]


if __name__ == "__main__":
    sys.exit(main())
