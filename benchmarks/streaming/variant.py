"""The process of one variant, with a fresh JVM.

`python -m benchmarks.streaming.variant NAME --data FOLDER --work FOLDER` reads all files of the
data folder and prints one JSON line: the batches and the final state by key.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.signals import exit_on_sigterm
from benchmarks.streaming import own_variants, spark_variants, timer_variants
from benchmarks.streaming.dataset import FILES_PER_BATCH, key_names
from benchmarks.streaming.session import batches_of, start_session
from benchmarks.streaming.windows import variants as windows
from queryable_state.streaming import StreamExecutionEnvironment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

AS_OURS = {"spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1)}
"""The setting of our own queries, also for the peers that pass rows to Python."""
SPARK_VARIANTS = {
    "native": spark_variants.native,
    "native-sums": spark_variants.native_sums,
    "tws-row": spark_variants.transform_with_state,
    "tws-pandas": spark_variants.transform_with_state_in_pandas,
    "native-union": spark_variants.native_union,
    "tws-connect": spark_variants.connect,
    **windows.NATIVE,
    "tws-timers": timer_variants.transform_with_state,
}
OWN_VARIANTS = own_variants.VARIANTS
NAMED_STATE = ("tws-row", "tws-pandas", "tws-connect", "tws-timers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=(*SPARK_VARIANTS, *OWN_VARIANTS))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--keys", type=int, required=True, help="distinct keys in the data")
    parser.add_argument("--step", type=int, default=1, help="only every STEPth key is checked")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    exit_on_sigterm()
    conf = dict(setting.split("=", 1) for setting in options.conf)
    keys = key_names(options.keys)[:: options.step]
    run = run_own if options.name in OWN_VARIANTS else run_spark
    result = run(options.name, options.data, options.work, keys, conf)
    print(json.dumps(result), flush=True)


def run_spark(
    name: str, data: Path, work: Path, keys: Sequence[str], conf: Mapping[str, str]
) -> dict[str, object]:
    """Runs a variant of Spark; its state reader reads the state after the end of the query."""
    spark = start_session(work, {**AS_OURS, **conf})
    try:
        checkpoint = work / "checkpoint"
        query = SPARK_VARIANTS[name](spark, data, checkpoint)
        query.processAllAvailable()
        batches = batches_of(query)
        query.stop()
        state = spark_variants.state_of(spark, checkpoint, named=name in NAMED_STATE)
        checked = set(keys)
        if name in windows.NATIVE:
            found = windows.native_state(state, _batches(data))
            return {"batches": batches, "state": {key: found[key] for key in keys}}
        rows = state.select("key", "value").toLocalIterator()
        found = {row.key[0]: list(row.value) for row in rows if row.key[0] in checked}
        return {"batches": batches, "state": found}
    finally:
        spark.stop()


def run_own(
    name: str, data: Path, work: Path, keys: Sequence[str], conf: Mapping[str, str]
) -> dict[str, object]:
    """Runs a variant of ours; a client reads the state while the query runs."""
    spark = start_session(work, {"spark.queryable_state.backend": "rocksdb", **conf})
    try:
        with StreamExecutionEnvironment.get_execution_environment(spark) as environment:
            job = own_variants.start(name, environment, spark, data, work)
            job.process_all_available()
            batches = batches_of(job.query)
            if name in windows.OWN:
                state = windows.own_state(job, keys, _batches(data))
            else:
                state = own_variants.state_of(name, job, keys)
            job.cancel()
        return {"batches": batches, "state": state}
    finally:
        spark.stop()


def _batches(data: Path) -> int:
    return len(list(data.glob("*.parquet"))) // FILES_PER_BATCH


if __name__ == "__main__":
    main()
