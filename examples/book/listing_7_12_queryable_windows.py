"""Listing 7-12: the maximum temperature of each sensor in ten seconds, as queryable state.

The windows that are still open can be queried by sensor and window, as `openWindows`; the newest
window of each sensor that has ended by sensor, as `maxTemperature`. The job runs until Ctrl-C, and
prints its id and the address of a proxy.

    python examples/book/listing_7_12_queryable_windows.py
    queryable-state get maxTemperature sensor_1
    queryable-state windows openWindows sensor_1
"""

from __future__ import annotations

import argparse
import signal
import threading
from typing import TYPE_CHECKING, Any

from listing_7_13_queryable_stream import endless_readings
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from queryable_state.streaming import (
    ReducingStateDescriptor,
    StreamExecutionEnvironment,
    Time,
    TumblingEventTimeWindows,
    Types,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

READING = Types.ROW_NAMED(
    ["id", "temperature", "time"], [Types.STRING(), Types.DOUBLE(), Types.SQL_TIMESTAMP()]
)


def hotter(one: Any, other: Any) -> Any:
    """The reading with the higher temperature."""
    return one if one.temperature >= other.temperature else other


def make_queryable(env: StreamExecutionEnvironment, readings: DataFrame) -> None:
    """Makes the maximum temperature of each sensor in ten seconds queryable."""
    timed = readings.select("id", "temperature", F.timestamp_millis("timestamp").alias("time"))
    stream = env.from_dataframe(timed.withWatermark("time", "1 second"))
    windowed = stream.key_by("id").window(TumblingEventTimeWindows.of(Time.seconds(10)))
    newest = ReducingStateDescriptor("newest", hotter, READING)
    windowed.as_queryable_state("maxTemperature", newest, fired=True).uid("newest")
    open_windows = ReducingStateDescriptor("open", hotter, READING)
    windowed.as_queryable_state("openWindows", open_windows).uid("open")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0, help="run time; 0: until Ctrl-C")
    options = parser.parse_args(arguments)

    spark = SparkSession.builder.getOrCreate()
    env = StreamExecutionEnvironment.get_execution_environment(spark)
    env.set_parallelism(2)
    make_queryable(env, endless_readings(spark))
    job = env.execute_async("Ten Second Maxima")
    print(f"JOB {job.get_job_id()} {job.proxy_address()}", flush=True)

    stopped = threading.Event()
    if not options.seconds:
        signal.signal(signal.SIGINT, lambda *_: stopped.set())
    stopped.wait(options.seconds or None)
    job.cancel()


if __name__ == "__main__":
    main()
