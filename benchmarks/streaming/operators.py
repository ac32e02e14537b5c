"""`python -m benchmarks.streaming.operators`: batch time of jobs with one and with ten sums.

The jobs keep one queryable sum, ten sums on one `key_by`, and ten sums on ten `key_by`s. Each reads
the same parquet files in small batches, without a sink, with durable state in RocksDB. The jobs
alternate in one Spark session, behind a run that is not counted and warms the JVM up. The first
batches of a run are not counted. Every sum is compared with that of the files.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.arguments import add_common_arguments, write_run
from benchmarks.figures import Spread, table
from benchmarks.machine import Machine, NoiseMeter
from benchmarks.signals import exit_on_signal
from benchmarks.streaming.runs import WrongTotalsError
from benchmarks.streaming.session import batches_of, start_session
from queryable_state.client import blocking
from queryable_state.streaming import StreamExecutionEnvironment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from queryable_state.streaming import DataStream, JobClient

OPERATORS = 10
KEYS = 1_000
GOALS = {"ten-one-key": 1.5, "ten-ten-keys": 5.0}
TITLES = {
    "one": "one sum",
    "ten-one-key": "ten sums on one key",
    "ten-ten-keys": "ten sums on ten keys",
}
COLUMNS = [f"{kind}{number}" for number in range(OPERATORS) for kind in "kv"]
SCHEMA = ", ".join(f"{name} {'string' if name[0] == 'k' else 'bigint'}" for name in COLUMNS)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.streaming.operators", description=__doc__
    )
    parser.add_argument("--batches", type=int, default=30, help="of each run")
    parser.add_argument("--warm-up", type=int, default=10, help="batches that are not counted")
    parser.add_argument("--rows", type=int, default=5_000, help="of a batch")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each job")
    add_common_arguments(parser, quick="ten batches a run, one round")
    options = parser.parse_args()
    exit_on_signal()
    if options.quick:
        options.batches, options.warm_up, options.rounds = 10, 4, 1
    machine, meter = Machine.here(), NoiseMeter()
    batch_ms: dict[str, list[list[float]]] = {name: [] for name in TITLES}
    with tempfile.TemporaryDirectory(prefix="benchmark-operators-") as made:
        folder = Path(made)
        write(folder / "data", options.batches, options.rows)
        spark = start_session(folder, {"spark.queryable_state.backend": "rocksdb"})
        try:
            run(spark, "one", folder / "data", folder / "warm-up")
            for number in range(options.rounds):
                for name in TITLES if number % 2 == 0 else reversed(TITLES):
                    work = folder / f"{name}-{number}"
                    found = run(spark, name, folder / "data", work)
                    batch_ms[name].append(found[options.warm_up :])
        finally:
            spark.stop()
    spreads = {
        name: Spread.of([ms for each in runs for ms in each]) for name, runs in batch_ms.items()
    }
    by_run = {name: [Spread.of(ms).median for ms in runs] for name, runs in batch_ms.items()}
    ratios = {name: spread.median / spreads["one"].median for name, spread in spreads.items()}
    print("\n".join(machine.lines()))
    print(meter.line())
    print(f"\n{options.rows:,} rows a batch, {KEYS:,} keys; {options.rounds} rounds")
    rows = [
        [
            TITLES[name],
            f"{spread.median:.0f}",
            f"{min(by_run[name]):.0f}-{max(by_run[name]):.0f}",
            f"{ratios[name]:.2f}",
            f"{GOALS[name]:g}" if name in GOALS else "",
        ]
        for name, spread in spreads.items()
    ]
    print(table(["job", "batch, ms (p50)", "runs", "/ one sum", "goal"], rows))
    found_figures = {name: asdict(spread) for name, spread in spreads.items()}
    write_run(options, machine, meter, {"batch_ms": found_figures, "ratios": ratios})
    return 0


def write(folder: Path, batches: int, rows: int) -> None:
    """Writes one file per batch; Spark reads them in the order of their modification times."""
    folder.mkdir()
    names = pa.array([f"key_{number}" for number in range(KEYS)])
    random = np.random.default_rng(0)
    for batch in range(batches):
        columns = [
            names.take(pa.array(random.integers(0, KEYS, rows)))
            if name[0] == "k"
            else pa.array(random.integers(0, 1_000, rows))
            for name in COLUMNS
        ]
        path = folder / f"{batch:04}.parquet"
        pq.write_table(pa.table(columns, names=COLUMNS), path)
        os.utime(path, (1_700_000_000 + batch, 1_700_000_000 + batch))


def declare(name: str, rows: DataStream) -> None:
    """Declares the sums of a job."""
    shared = rows.key_by("k0")
    for number in range(1 if name == "one" else OPERATORS):
        keyed = rows.key_by(f"k{number}") if name == "ten-ten-keys" else shared
        keyed.aggregate_sum(f"v{number}", queryable_name=f"sum{number}").uid(f"sum{number}")


def sums_of(name: str, number: int, data: Path) -> dict[str, int]:
    """The final values of a sum of a job, by key."""
    key, value = f"k{number if name == 'ten-ten-keys' else 0}", f"v{number}"
    sums = pq.read_table(data, columns=list({key, value})).group_by(key).aggregate([(value, "sum")])
    return dict(zip(sums[key].to_pylist(), sums[f"{value}_sum"].to_pylist(), strict=True))


def check(name: str, job: JobClient, data: Path) -> None:
    """Raises WrongTotalsError unless every queryable sum of a job is that of the files."""
    host, port = job.proxy_address().rsplit(":", 1)
    with blocking.QueryableStateClient(host, int(port)) as client:
        for number in range(1 if name == "one" else OPERATORS):
            wanted = sums_of(name, number, data)
            states = client.get_kv_states(job.job_id, f"sum{number}", list(wanted))
            found = [None if state is None else state.get() for state in states]
            wrong = [key for key, sum_ in zip(wanted, found, strict=True) if sum_ != wanted[key]]
            if wrong:
                raise WrongTotalsError(f"{name}: sum{number} of {len(wrong)} keys is wrong")


def run(spark: SparkSession, name: str, data: Path, work: Path) -> list[float]:
    """The trigger durations of the batches of one job, in order."""
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(data))
    with StreamExecutionEnvironment.get_execution_environment(spark) as environment:
        declare(name, environment.from_dataframe(source))
        job = environment.execute_async(work.name, checkpoint_location=str(work))
        job.process_all_available()
        found = [float(batch["ms"]) for batch in batches_of(job.query)]
        check(name, job, data)
        job.cancel()
    return found


if __name__ == "__main__":
    sys.exit(main())
