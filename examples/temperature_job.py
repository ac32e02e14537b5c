"""Sensor job: alerts on temperature jumps, running maximum and last reading.

One Spark query computes three results from one stream of readings:
  alerts            printed when a reading differs by more than --threshold from the previous one
  lastTemperature   queryable: the last reading of each sensor
  maxTemperature    queryable: the highest reading of each sensor

`examples/temperature_dashboard.py` starts this job and displays its state. The job also runs alone.
"""

from __future__ import annotations

import argparse
import signal
import threading
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from queryable_state.streaming import (
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

JOB_NAME = "temperature"
LAST_TEMPERATURE = "lastTemperature"
MAX_TEMPERATURE = "maxTemperature"
SENSORS = 12


class TemperatureAlert(KeyedProcessFunction):
    """Yields (sensor, temperature, jump) if a reading differs too much from the last one."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor(LAST_TEMPERATURE, Types.DOUBLE())
        descriptor.set_queryable(LAST_TEMPERATURE)
        self.last = runtime_context.get_state(descriptor)

    def process_element(
        self, value: Any, ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[str, float, float]]:
        last = self.last.value()
        self.last.update(value.temperature)
        if last is not None and abs(value.temperature - last) > self.threshold:
            yield value.sensor, value.temperature, round(value.temperature - last, 2)


def readings(spark: SparkSession, rows_per_second: int) -> DataFrame:
    """A stream of (sensor, ts, temperature): a daily curve, an offset per sensor, and noise."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", rows_per_second).load()
    number = F.col("value") % SENSORS + 1
    curve = 65 + 15 * F.sin(F.col("value") / 2000 + number)
    return rows.select(
        F.concat(F.lit("sensor_"), number).alias("sensor"),
        F.col("timestamp").alias("ts"),
        F.round(curve + F.randn(seed=7), 2).alias("temperature"),
    )


def declare(env: StreamExecutionEnvironment, rows: DataFrame, threshold: float) -> None:
    """Declares the operators of the job on a stream of (sensor, ts, temperature)."""
    # The rows of a batch come from several tasks: a jump is one only between readings in order.
    sensors = env.from_dataframe(rows).key_by("sensor", order_by="ts")
    alert_type = Types.ROW_NAMED(
        ["sensor", "temperature", "jump"], [Types.STRING(), Types.DOUBLE(), Types.DOUBLE()]
    )
    sensors.process(TemperatureAlert(threshold), alert_type).uid("alerts").print()
    sensors.aggregate_max("temperature", queryable_name=MAX_TEMPERATURE).uid("maximum")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--master", default="local[2,4]", help="Spark master")
    parser.add_argument("--rows-per-second", type=int, default=120)
    parser.add_argument("--threshold", type=float, default=3.5, help="degrees between two readings")
    parser.add_argument("--web", default="off", help="on: serve REST and the page")
    options = parser.parse_args()

    spark = (
        SparkSession.builder.master(options.master)
        .appName(JOB_NAME)
        .config("spark.ui.enabled", "false")
        .config("spark.queryable_state.web", options.web)
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")

    env = StreamExecutionEnvironment.get_execution_environment(spark)
    declare(env, readings(spark, options.rows_per_second), options.threshold)
    job = env.execute_async(JOB_NAME)

    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    print(f"JOB {job.get_job_id()} {job.proxy_address(timeout_s=60)}", flush=True)
    if options.web == "on":
        print(f"WEB {job.web_address(timeout_s=60)}", flush=True)
    while not stopped.wait(0.5):
        job.raise_if_failed()
    job.cancel()
    env.close()
    spark.stop()


if __name__ == "__main__":
    main()
