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
    from collections.abc import Mapping

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
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    conf = dict(setting.split("=", 1) for setting in options.conf)
    if options.name in OWN_VARIANTS:
        result = run_own(options.name, options.data, options.work, options.keys, conf)
    else:
        result = run_spark(options.name, options.data, options.work, conf)
    print(json.dumps(result), flush=True)


def run_spark(name: str, data: Path, work: Path, conf: Mapping[str, str]) -> dict[str, object]:
    """Runs one of Spark's; the state is read by Spark's state reader when the query has ended."""
    spark = start_session(work, conf)
    try:
        checkpoint = work / "checkpoint"
        query = SPARK_VARIANTS[name](spark, data, checkpoint)
        query.processAllAvailable()
        batches = batches_of(query)
        query.stop()
        state = spark_variants.state_of(spark, checkpoint, named=name in NAMED_STATE)
        rows = state.select("key", "value").collect()
        return {"batches": batches, "state": {row.key[0]: list(row.value) for row in rows}}
    finally:
        spark.stop()


def run_own(
    name: str, data: Path, work: Path, keys: int, conf: Mapping[str, str]
) -> dict[str, object]:
    """Runs one of ours; the state is asked for while the query still runs."""
    spark = start_session(work, {"spark.queryable_state.backend": "rocksdb", **conf})
    try:
        with StreamExecutionEnvironment.get_execution_environment(spark) as environment:
            job = own_variants.start(name, environment, spark, data, work)
            job.process_all_available()
            batches = batches_of(job.query)
            state = own_variants.state_of(name, job, key_names(keys))
            job.cancel()
        return {"batches": batches, "state": state}
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
