"""`python -m benchmarks.recovery`: the time of restores and the cost of durable state.

Restores, checkpoint sizes and the slowdown of batches by snapshots are measured on a job without
Spark: one state server process, two subtasks, keys of 16 bytes and values of 32, written by the
tasks that also run in Spark. Rows a second with and without a durable copy are measured in Spark on
the workload of `benchmarks.streaming`. Every restored and every final state is checked.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from pathlib import Path

from benchmarks.arguments import add_common_arguments, chosen, write_run
from benchmarks.machine import Machine, NoiseMeter
from benchmarks.recovery.changelogs import measure_changelogs
from benchmarks.recovery.report import changelogs, restores, sizes, slowdown
from benchmarks.recovery.restores import measure_restores
from benchmarks.recovery.snapshots import measure_sizes, measure_slowdown
from benchmarks.signals import exit_on_signal

PARTS = ("restore", "sizes", "slowdown", "changelog")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recovery", description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument(
        "--keys-per-batch", type=int, default=5_000, help="in the batches beside snapshots"
    )
    parser.add_argument("--rows", type=int, default=2_000_000, help="of each Spark run")
    parser.add_argument("--warm-up", type=int, default=3, help="batches not counted in a run")
    parser.add_argument("--variant", default="sums", help="of benchmarks.streaming")
    parser.add_argument("--parts", default=",".join(PARTS), help="some of: %(default)s")
    add_common_arguments(
        parser,
        rounds="of restores, and of Spark runs",
        seconds=(20.0, "of batches beside snapshots"),
        quick="a tenth of all sizes, one round",
    )
    options = parser.parse_args()
    if options.quick:
        options.keys, options.rows, options.rounds, options.seconds = 100_000, 200_000, 1, 5.0
    exit_on_signal()
    parts = chosen(parser, options.parts, PARTS, "part")

    machine, meter = Machine.here(), NoiseMeter()
    tables: list[str] = []
    figures: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="benchmark-recovery-") as name:
        folder = Path(name)
        if "restore" in parts:
            _log(f"restoring {options.keys:,} keys")
            restored = measure_restores(folder, options.keys, options.rounds)
            tables.append(restores(restored, options.keys))
            figures["restores"] = {
                case: [dataclasses.asdict(sample) for sample in samples]
                for case, samples in restored.items()
            }
        if "sizes" in parts:
            _log("sizes of checkpoints")
            written = measure_sizes(folder, options.keys)
            tables.append(sizes(written))
            figures["sizes"] = {
                backend: dataclasses.asdict(each) for backend, each in written.items()
            }
        if "slowdown" in parts:
            _log("batches beside snapshots")
            slowed = measure_slowdown(folder, options.keys, options.seconds, options.keys_per_batch)
            tables.append(slowdown(slowed, options.keys_per_batch))
            figures["slowdown"] = dataclasses.asdict(slowed)
        if "changelog" in parts:
            runs = measure_changelogs(
                folder,
                options.variant,
                rows=options.rows,
                rounds=options.rounds,
                warm_up=options.warm_up,
                log=_log,
            )
            tables.append(changelogs(runs))
            figures["changelogs"] = {
                way: [vars(run) for run in of_way] for way, of_way in runs.items()
            }
    print()
    print("\n".join([*machine.lines(), meter.line()]))
    print("\n" + "\n\n".join(tables))
    write_run(options, machine, meter, figures)
    return 0


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
