"""`python -m benchmarks.latency.timers`: time from a timer's time to an answer with it.

A job without further input keeps, for one key, the time of its newest processing-time timer; each
timer registers the next. Another process reads the key, by look-ups that wait for the next batch.
The report compares the time of a committed answer with Spark's duration of the timer's batch.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.arguments import add_common_arguments, write_run
from benchmarks.latency.freshness import KEY, SCHEMA, arrive
from benchmarks.latency.latency_table import Latency, latency_table
from benchmarks.latency.reader import Reader, Seen
from benchmarks.machine import Machine, NoiseMeter
from benchmarks.signals import exit_on_signal
from benchmarks.streaming.session import start_session
from queryable_state.streaming import (
    KeyedProcessFunction,
    ReducingStateDescriptor,
    StreamExecutionEnvironment,
    Types,
)

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from queryable_state.streaming import RuntimeContext

NAME = "fired"
GOAL_MS = 20
INTERVAL_MS = (1_000, 1_500)
"""From the start of a batch to the next timer: longer than a batch takes."""


class NextTimer(KeyedProcessFunction):
    """Keeps the time of the timer that fired last and registers the next one."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ReducingStateDescriptor(NAME, max, Types.LONG())
        descriptor.set_queryable(NAME)
        self.fired = runtime_context.get_reducing_state(descriptor)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.fired.add(0)
        self._register(ctx)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        self.fired.add(timestamp)
        self._register(ctx)

    def _register(self, ctx: KeyedProcessFunction.Context) -> None:
        timers = ctx.timer_service()
        # Not in step with Spark's polls for new input.
        wait_ms = random.randint(*INTERVAL_MS)
        timers.register_processing_time_timer(timers.current_processing_time() + wait_ms)


@dataclass(frozen=True)
class Firing:
    """The times of one timer in milliseconds."""

    start_ms: float
    """From the timer's time to the start of its batch."""
    batch_ms: float
    """Spark's trigger duration."""
    committed_ms: float
    """From the timer's time to a committed answer."""

    @property
    def over_ms(self) -> float:
        """Committed answer minus batch time."""
        return self.committed_ms - self.batch_ms


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.latency.timers", description=__doc__
    )
    parser.add_argument("--timers", type=int, default=80)
    parser.add_argument("--warm-up", type=int, default=15, help="timers not counted")
    add_common_arguments(parser, quick="a fifth of the timers")
    options = parser.parse_args()
    if options.quick:
        options.timers, options.warm_up = 16, 6
    exit_on_signal()
    machine, meter = Machine.here(), NoiseMeter()
    with tempfile.TemporaryDirectory(prefix="benchmark-latency-") as folder:
        firings = run(Path(folder), options.timers + options.warm_up)[options.warm_up :]
    print("\n".join(machine.lines()))
    print(meter.line())
    print(f"{len(firings)} timers, {options.warm_up} of warm-up")
    print(report(firings))
    write_run(options, machine, meter, {"firings": [asdict(each) for each in firings]})
    return 0


def run(folder: Path, timers: int) -> list[Firing]:
    """Lets the timers fire one by one and returns the times of each."""
    source = folder / "source"
    source.mkdir()
    spark = start_session(folder, {"spark.queryable_state.backend": "rocksdb"})
    try:
        with StreamExecutionEnvironment.get_execution_environment(spark) as environment:
            rows = environment.from_dataframe(spark.readStream.schema(SCHEMA).parquet(str(source)))
            rows.key_by("key").process(NextTimer()).uid("timed")
            job = environment.execute_async(
                "timers", checkpoint_location=str(folder / "checkpoint")
            )
            arrive(source, 0, rows=1)
            # The reader can wait only for a state that exists.
            job.process_all_available()
            with Reader(job.proxy_address(), job.job_id, NAME, KEY, ["committed"]) as reader:
                newest = 0
                for _ in range(timers):
                    reader.wait_for("committed", newest + 1)
                    newest = max(reader.seen["committed"])
            found = timed(job.query, reader.seen["committed"])
            job.cancel()
        return found
    finally:
        spark.stop()


def timed(query: StreamingQuery, seen: dict[int, Seen]) -> list[Firing]:
    """The times of each timer, with those of its batch."""
    batches: dict[int, Any] = {progress.batchId: progress for progress in query.recentProgress}
    firings = []
    for due_ms, answer in sorted(seen.items()):
        if not due_ms:
            continue
        progress = batches[answer.batch]
        began_ms = datetime.fromisoformat(progress.timestamp).timestamp() * 1000
        firings.append(
            Firing(
                start_ms=began_ms - due_ms,
                batch_ms=progress.durationMs["triggerExecution"],
                committed_ms=answer.seen_us / 1000 - due_ms,
            )
        )
    return firings


def report(firings: list[Firing]) -> str:
    """The table: p50, p95 and the goal of each time."""
    return latency_table(
        [
            Latency("timer's time to the start of its batch", "", [f.start_ms for f in firings]),
            Latency("batch time", "", [f.batch_ms for f in firings]),
            Latency("timer's time to committed answer", "", [f.committed_ms for f in firings]),
            Latency(
                "committed answer minus batch time", str(GOAL_MS), [f.over_ms for f in firings]
            ),
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
