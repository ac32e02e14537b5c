"""An alert when a sensor falls silent: timers of event time.

Ten sensors send a reading a second; sensor_3 stops after some seconds. Each reading sets a timer of
its sensor three seconds of event time ahead, and deletes the one before: a timer fires only for a
sensor without readings for three seconds, however long the batches take. Timers of processing time
would also fire for all sensors when a batch takes longer than that.

    python examples/silent_sensors.py --seconds 20
"""

from __future__ import annotations

import argparse
import time
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
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from queryable_state.streaming import ValueState

SENSORS = 10
SILENT = "sensor_3"
SILENCE_MS = 3_000
ALERT = Types.ROW_NAMED(["sensor", "since_ms"], [Types.STRING(), Types.LONG()])


class SilenceAlert(KeyedProcessFunction):
    """Emits (sensor, time of its last reading) once a sensor is silent for a time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        last = ValueStateDescriptor("last", Types.LONG())
        last.set_queryable("lastReading")
        self.last: ValueState[int] = runtime_context.get_state(last)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        timers, last, now = ctx.timer_service(), self.last.value(), ctx.timestamp()
        assert now is not None, "a stream with a watermark has timestamps"
        if last is not None:
            timers.delete_event_time_timer(last + SILENCE_MS)
        timers.register_event_time_timer(now + SILENCE_MS)
        self.last.update(now)

    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext
    ) -> Iterator[tuple[str, int]]:
        yield ctx.get_current_key(), self.last.value() or 0


def readings(spark: SparkSession, silent_after: int) -> DataFrame:
    """A reading of every sensor each second; the silent one stops after some readings."""
    number = F.col("value")
    sensor = F.concat(F.lit("sensor_"), number % SENSORS + 1)
    rows = spark.readStream.format("rate").option("rowsPerSecond", SENSORS).load()
    has_stopped = (sensor == SILENT) & (number >= SENSORS * silent_after)
    timed = rows.withWatermark("timestamp", "1 second")
    return timed.select(sensor.alias("sensor"), "timestamp").where(~has_stopped)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20, help="run time")
    options = parser.parse_args(arguments)

    spark = SparkSession.builder.master("local[2,4]").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    env = StreamExecutionEnvironment.get_execution_environment(spark)
    env.set_parallelism(2)
    stream = env.from_dataframe(readings(spark, silent_after=4)).key_by("sensor")
    alerts: list[Any] = []

    def report(batch: DataFrame, batch_id: int) -> None:
        for row in batch.collect():
            silent_s = time.time() - row.since_ms / 1_000
            alerts.append(row.sensor)
            print(f"{row.sensor} is silent for {silent_s:.1f} s", flush=True)

    stream.process(SilenceAlert(), ALERT).uid("silence").add_sink(report)
    job = env.execute_async("silent-sensors")
    time.sleep(options.seconds)
    job.cancel()
    print(f"{len(alerts)} alerts, of {', '.join(sorted(set(alerts))) or 'no sensor'}")
    return 0 if set(alerts) == {SILENT} else 1


if __name__ == "__main__":
    raise SystemExit(main())
