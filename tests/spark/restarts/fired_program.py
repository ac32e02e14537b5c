"""A program that is killed when its timers have fired in a batch that is not committed yet.

Arguments: folder of the input, folder for state. Started again it prints how often the timers of
each key have fired, as JSON. For test_timers_over_restarts.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.spark.restarts.fired_functions import FIRED, ROWS, Fires
from tests.waiting import until

from queryable_state.client.blocking import QueryableStateClient
from queryable_state.streaming import StreamExecutionEnvironment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEYS = [f"k{number}" for number in range(20)]


def main(source: str, state: str) -> None:
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.queryable_state.directory", f"{state}-servers")
        .config("state.checkpoints.dir", state)
        .config("state.backend", "rocksdb")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    env = StreamExecutionEnvironment.get_execution_environment(spark)
    killed = Path(f"{state}-killed")

    def write(batch: DataFrame, batch_id: int) -> None:
        if batch.collect() and not killed.exists():
            killed.write_text(str(batch_id))
            os.killpg(os.getpgid(0), signal.SIGKILL)

    rows = spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1).json(source)
    keyed = env.from_dataframe(rows.withWatermark("ts", "0 seconds")).key_by("k")
    keyed.process(Fires(), FIRED).uid("timed").add_sink(write)
    job = env.execute_async("fires")
    job.process_all_available()
    host, _, port = job.proxy_address().rpartition(":")
    with QueryableStateClient(host, int(port)) as client:

        def fires() -> list[int | None]:
            found = client.get_kv_states(job.job_id, "fires", KEYS)
            return [None if state is None else state.value() for state in found]

        until(lambda: None not in fires())
        sys.stdout.write("\n" + json.dumps(fires()) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
