"""What Spark may do to a batch (retry it, run it twice, run a part of it) and what counts."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F
from tests.spark.functions import COUNTS, READINGS, CountPerKey, CountWithFailures
from tests.waiting import until

from queryable_state.streaming import JobStatus
from queryable_state.wire.errors import JobError, Reason

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame
    from tests.spark.conftest import Connect, MakeFeed

    from queryable_state.streaming import JobClient, StreamExecutionEnvironment

COORDINATOR_LOG = "queryable_state.server.coordinator"


def reading(sensor: str) -> dict[str, object]:
    return {"sensor": sensor, "temperature": 1.0}


def counted_after(
    env: StreamExecutionEnvironment,
    feed: MakeFeed,
    connect: Connect,
    sink: Callable[[DataFrame, int], object],
) -> list[int | None]:
    """Counts of a and b after two batches through a process function and `sink`."""
    source = feed(READINGS)
    counts = env.from_dataframe(source.dataframe()).key_by("sensor")
    counts.process(CountPerKey(), COUNTS).uid("counts").add_sink(sink)
    source.add(reading("a"), reading("b"), reading("a"))
    source.add(reading("a"))
    job = env.execute_async("exactly-once")
    job.process_all_available()
    found = connect(job).get_kv_states(job.job_id, "count", ["a", "b"])
    job.cancel()
    return [None if state is None else state.value() for state in found]


def test_a_retried_task_counts_once(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    source = feed(READINGS)
    counts = env.from_dataframe(source.dataframe()).key_by("sensor")
    counts.process(CountWithFailures(), COUNTS).uid("counts")
    source.add(reading("a"), reading("a"))
    job = env.execute_async("retried")
    job.process_all_available()
    assert connect(job).get_kv_state(job.job_id, "count", "a").value() == 2


def test_two_actions_of_a_sink_count_once(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    def twice(batch: DataFrame, batch_id: int) -> None:
        batch.collect()
        batch.write.format("noop").mode("append").save()

    assert counted_after(env, feed, connect, twice) == [3, 1]


def test_a_select_and_a_count_count_once(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    def select_and_count(batch: DataFrame, batch_id: int) -> None:
        batch.select("sensor").collect()
        batch.count()

    assert counted_after(env, feed, connect, select_and_count) == [3, 1]


def test_a_limit_after_a_whole_action_loses_nothing(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    def write_then_head(batch: DataFrame, batch_id: int) -> None:
        batch.write.format("noop").mode("append").save()
        batch.head(1)

    assert counted_after(env, feed, connect, write_then_head) == [3, 1]


def test_a_limit_alone_counts_all_records(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    """The sink's action reads one partition, and every subtask runs."""
    assert counted_after(env, feed, connect, lambda batch, _: batch.head(1)) == [3, 1]


@pytest.mark.parametrize("actions", [1, 2])
def test_a_function_runs_once_for_all_actions_of_a_sink(
    env: StreamExecutionEnvironment, feed: MakeFeed, tmp_path: Path, actions: int
) -> None:
    """Actions read what the operator has shuffled once, whether they read all of it or not."""
    log = tmp_path / "log"

    def act(batch: DataFrame, batch_id: int) -> None:
        batch.head(1)
        if actions == 2:
            batch.collect()

    source = feed(READINGS)
    counts = env.from_dataframe(source.dataframe()).key_by("sensor")
    counts.process(CountPerKey(log=str(log)), COUNTS).uid("counts").add_sink(act)
    sensors = [f"sensor_{number}" for number in range(20)]
    source.add(*map(reading, sensors))
    env.execute_async("once").process_all_available()
    assert sorted(log.read_text().split()) == sorted(sensors)


def test_input_that_differs_in_a_second_run_is_reported(
    env: StreamExecutionEnvironment,
    feed: MakeFeed,
    connect: Connect,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    """A batch fails after its state was sealed; run again, its rows are others."""

    @F.udf("string")
    def random_name() -> str:
        return uuid.uuid4().hex

    def fail_once(batch: DataFrame, batch_id: int) -> None:
        batch.collect()
        if not runs:
            runs.append(batch_id)
            raise OSError("the sink's disk is full")

    runs: list[int] = []
    source = feed(READINGS)
    source.add(reading("a"))
    frame = source.dataframe().withColumn("name", random_name.asNondeterministic()())

    def start() -> JobClient:
        keyed = env.from_dataframe(frame).key_by("sensor")
        keyed.process(CountPerKey("named"), COUNTS).uid("names").add_sink(fail_once)
        return env.execute_async("other", checkpoint_location=str(tmp_path / "checkpoint"))

    with caplog.at_level(logging.WARNING, COORDINATOR_LOG):
        first = start()
        until(lambda: not first.query.isActive)
        job = start()
        job.process_all_available()
        until(lambda: "names" in caplog.text)
    assert runs == [0]
    assert connect(job).get_kv_state(job.job_id, "named", "a").value() == 1


def test_a_missing_batch_id_is_refused(env: StreamExecutionEnvironment, feed: MakeFeed) -> None:
    """A thread that does not inherit Spark's properties runs its jobs outside the batch."""
    import threading

    source = feed(READINGS)
    failures: list[str] = []

    def in_a_thread(batch: DataFrame, batch_id: int) -> None:
        def collect() -> None:
            try:
                batch.collect()
            except Exception as error:  # noqa: BLE001 - what is asserted on
                failures.append(str(error))

        thread = threading.Thread(target=collect)
        thread.start()
        thread.join()

    counts = env.from_dataframe(source.dataframe()).key_by("sensor")
    counts.process(CountPerKey(), COUNTS).uid("counts").add_sink(in_a_thread)
    source.add(reading("a"))
    env.execute_async("threads").process_all_available()
    assert "InheritableThread" in failures[0]


def test_a_job_that_is_stopped_for_a_reason_has_it_as_its_exception(
    env: StreamExecutionEnvironment, feed: MakeFeed
) -> None:
    """Through the engine the coordinator stops queries with: the reason is the job's exception."""
    source = feed(READINGS)
    counts = env.from_dataframe(source.dataframe()).key_by("sensor")
    counts.process(CountPerKey(), COUNTS).uid("counts")
    source.add(reading("a"))
    job = env.execute_async("strict")
    job.process_all_available()
    refusal = JobError("partial", reason=Reason.PARTIAL_BATCH)
    application = env._running_application()
    application.adapter.stop_query(uuid.UUID(job.job_id).bytes, refusal)
    until(lambda: not job.query.isActive)
    assert job.exception() is refusal
    assert job.status() is JobStatus.FAILED
