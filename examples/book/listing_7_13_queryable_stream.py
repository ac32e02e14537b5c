"""Listing 7-13: a stream whose newest elements can be queried.

The job computes the maximum temperature of each sensor, and keeps the newest result of each sensor
in the queryable state `maxTemperature`. It runs until Ctrl-C, and prints its id and the address of
a proxy for listing 7-14.

    python examples/book/listing_7_13_queryable_stream.py
"""

from __future__ import annotations

import argparse
import signal
import threading
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from queryable_state.streaming import StreamExecutionEnvironment, Types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from queryable_state.streaming import DataStream

SENSORS = 10
MAXIMUM = Types.TUPLE([Types.STRING(), Types.DOUBLE()])


def endless_readings(spark: SparkSession) -> DataFrame:
    """A reading of every sensor each second: a curve that rises slowly, and noise."""
    number = F.col("value")
    return (
        spark.readStream.format("rate")
        .option("rowsPerSecond", SENSORS)
        .load()
        .select(
            F.concat(F.lit("sensor_"), number % SENSORS + 1).alias("id"),
            F.unix_millis("timestamp").alias("timestamp"),
            (65 + 15 * F.sin(number / 500) + F.randn(seed=7)).alias("temperature"),
        )
    )


def make_queryable(sensors: DataStream) -> None:
    """Makes the maximum temperature of each sensor queryable."""
    temperatures = sensors.map(lambda reading: (reading.id, reading.temperature), MAXIMUM)
    maxima = temperatures.key_by(0).max(1).uid("maximum")
    maxima.key_by(0).as_queryable_state("maxTemperature").uid("max-temperature")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0, help="run time; 0: until Ctrl-C")
    options = parser.parse_args(arguments)

    spark = SparkSession.builder.getOrCreate()
    env = StreamExecutionEnvironment.get_execution_environment(spark)
    make_queryable(env.from_dataframe(endless_readings(spark)))
    job = env.execute_async("Track Max Temperature")
    print(f"JOB {job.get_job_id()} {job.proxy_address()}", flush=True)

    stopped = threading.Event()
    if not options.seconds:
        signal.signal(signal.SIGINT, lambda *_: stopped.set())
    stopped.wait(options.seconds or None)
    job.cancel()


if __name__ == "__main__":
    main()
