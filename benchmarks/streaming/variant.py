"""One variant in a process of its own: a fresh JVM, and nothing another variant left behind.

`python -m benchmarks.streaming.variant NAME --data FOLDER --work FOLDER` reads all files of the
data folder, prints one JSON line (batches, the state it ended with, by key), and ends.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.streaming import own_variants, spark_variants
from benchmarks.streaming.dataset import key_names
from benchmarks.streaming.session import batches_of, start_session
from queryable_state.streaming import StreamExecutionEnvironment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

AS_OURS = {"spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1)}
"""What our jobs set on their own query, for the peers that pass rows to Python too."""
SPARK_VARIANTS = {
    "native": spark_variants.native,
    "native-sums": spark_variants.native_sums,
    "tws-row": spark_variants.transform_with_state,
    "tws-pandas": spark_variants.transform_with_state_in_pandas,
}
OWN_VARIANTS = own_variants.VARIANTS
NAMED_STATE = ("tws-row", "tws-pandas")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=(*SPARK_VARIANTS, *OWN_VARIANTS))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--keys", type=int, required=True, help="distinct keys in the data")
    parser.add_argument("--step", type=int, default=1, help="every how manieth key is looked at")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    conf = dict(setting.split("=", 1) for setting in options.conf)
    keys = key_names(options.keys)[:: options.step]
    run = run_own if options.name in OWN_VARIANTS else run_spark
    result = run(options.name, options.data, options.work, keys, conf)
    print(json.dumps(result), flush=True)


def run_spark(
    name: str, data: Path, work: Path, keys: Sequence[str], conf: Mapping[str, str]
) -> dict[str, object]:
    """Runs one of Spark's; the state is read by Spark's state reader when the query has ended."""
    spark = start_session(work, {**AS_OURS, **conf})
    try:
        checkpoint = work / "checkpoint"
        query = SPARK_VARIANTS[name](spark, data, checkpoint)
        query.processAllAvailable()
        batches = batches_of(query)
        query.stop()
        state = spark_variants.state_of(spark, checkpoint, named=name in NAMED_STATE)
        looked_at = set(keys)
        rows = state.select("key", "value").toLocalIterator()
        found = {row.key[0]: list(row.value) for row in rows if row.key[0] in looked_at}
        return {"batches": batches, "state": found}
    finally:
        spark.stop()


def run_own(
    name: str, data: Path, work: Path, keys: Sequence[str], conf: Mapping[str, str]
) -> dict[str, object]:
    """Runs one of ours; the state is asked for while the query still runs."""
    spark = start_session(work, {"spark.queryable_state.backend": "rocksdb", **conf})
    try:
        with StreamExecutionEnvironment.get_execution_environment(spark) as environment:
            job = own_variants.start(name, environment, spark, data, work)
            job.process_all_available()
            batches = batches_of(job.query)
            state = own_variants.state_of(name, job, keys)
            job.cancel()
        return {"batches": batches, "state": state}
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
