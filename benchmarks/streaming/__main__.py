"""`python -m benchmarks.streaming`: rows a second of keyed aggregations, ours beside Spark's.

Every variant reads the same parquet files in batches of equal size into a noop sink on local[2,4],
state in RocksDB, each time in a fresh JVM; rounds take the variants in turn, every other round
backwards. A batch's rows a second are its rows over Spark's own trigger duration; the first
batches of a run are not counted. The state each run ends with is compared with the sums.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Spread, table, thousands, write_json
from benchmarks.machine import Machine, NoiseMeter
from benchmarks.streaming.dataset import Dataset
from benchmarks.streaming.runs import VARIANTS, Variant, VariantRun, run_variant

REFERENCES = ("native", "native-sums", "tws-row")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streaming", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rows-per-batch", type=int, default=200_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each variant")
    parser.add_argument("--warm-up", type=int, default=3, help="batches not counted in a run")
    parser.add_argument("--variants", help="comma-separated; all of them without it")
    parser.add_argument("--json", type=Path, help="file for all figures")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, one round")
    options = parser.parse_args()
    if options.quick:
        options.rows, options.rows_per_batch, options.rounds = 200_000, 40_000, 1
    names = options.variants.split(",") if options.variants else [v.name for v in VARIANTS]
    unknown = set(names) - {variant.name for variant in VARIANTS}
    if unknown:
        parser.error(f"no such variant: {', '.join(sorted(unknown))}")
    chosen = [variant for variant in VARIANTS if variant.name in names]

    machine, meter = Machine.here(), NoiseMeter()
    with tempfile.TemporaryDirectory(prefix="benchmark-streaming-") as folder:
        dataset = Dataset(
            Path(folder) / "all",
            batches=-(-options.rows // options.rows_per_batch),
            rows_per_batch=options.rows_per_batch,
            keys=options.keys,
        )
        dataset.write()
        runs = measure(chosen, dataset, Path(folder), options.rounds, options.warm_up)

    medians = {
        name: Spread.of([rate for run in of_one for rate in run.rows_per_second])
        for name, of_one in runs.items()
    }
    print()
    print("\n".join(machine.lines()))
    print(meter.line())
    print(
        f"{options.rows:,} rows, {options.keys:,} keys, {options.rows_per_batch:,} rows a batch; "
        f"{options.rounds} rounds, {options.warm_up} batches of warm-up in each"
    )
    print(report(chosen, runs, medians))
    if options.json:
        write_json(
            options.json,
            {
                "machine": machine.to_json(),
                "noise": meter.note(),
                "options": {name: str(value) for name, value in vars(options).items()},
                "runs": {name: [vars(run) for run in of_one] for name, of_one in runs.items()},
            },
        )
    return 0


def measure(
    chosen: list[Variant], dataset: Dataset, folder: Path, rounds: int, warm_up: int
) -> dict[str, list[VariantRun]]:
    """The runs of each variant, by name."""
    runs: dict[str, list[VariantRun]] = {variant.name: [] for variant in chosen}
    for number in range(rounds):
        for variant in chosen if number % 2 == 0 else reversed(chosen):
            began = time.monotonic()
            run = run_variant(variant, dataset, folder / "run", warm_up=warm_up)
            runs[variant.name].append(run)
            print(
                f"round {number + 1}: {variant.name:14} "
                f"{thousands(Spread.of(run.rows_per_second).median):>6} rows/s, state right "
                f"({time.monotonic() - began:.0f} s)",
                file=sys.stderr,
                flush=True,
            )
    return runs


def report(
    chosen: list[Variant], runs: dict[str, list[VariantRun]], medians: dict[str, Spread]
) -> str:
    """Rows a second of each variant, and against the references that were run."""
    references = [name for name in REFERENCES if name in medians]
    header = ["variant", "rows/s", "runs", "batches", *(f"/ {name}" for name in references)]
    rows = []
    for variant in chosen:
        spread = medians[variant.name]
        by_run = [Spread.of(run.rows_per_second).median for run in runs[variant.name]]
        rows.append(
            [
                f"{variant.title} (`{variant.name}`)",
                thousands(spread.median),
                f"{thousands(min(by_run))}-{thousands(max(by_run))}",
                str(spread.count),
                *(f"{spread.median / medians[name].median:.2f}" for name in references),
            ]
        )
    return table(header, rows)


if __name__ == "__main__":
    sys.exit(main())
