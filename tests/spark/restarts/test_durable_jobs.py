"""Jobs that are stopped, lose their servers or fail, and go on without a loss."""

from __future__ import annotations

import json
import os
import shutil
import signal
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.folders import files_of
from tests.spark.functions import COUNTS, READINGS, CountPerKey
from tests.waiting import until

from queryable_state.client.blocking import QueryableStateClient
from queryable_state.streaming import (
    ExternalizedCheckpointCleanup,
    JobStatus,
    MemoryStateBackend,
    RestartStrategies,
)
from queryable_state.wire.errors import CheckpointError, RestoreMismatchError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame
    from tests.spark.conftest import MakeFeed, NewEnvironment
    from tests.spark.feed import Feed

    from queryable_state.streaming import JobClient, StreamExecutionEnvironment


def reading(sensor: str) -> dict[str, object]:
    return {"sensor": sensor, "temperature": 1.0}


def started(env: StreamExecutionEnvironment, source: Feed, **arguments: Any) -> JobClient:
    """A job that counts readings by sensor."""
    stream = env.from_dataframe(source.dataframe()).key_by("sensor")
    stream.process(CountPerKey(), COUNTS).uid("counts")
    return env.execute_async("counting", **arguments)


def count(env: StreamExecutionEnvironment, source: Feed, **arguments: Any) -> JobClient:
    """The same, when it has processed what there is."""
    job = started(env, source, **arguments)
    job.process_all_available()
    return job


def client_of(job: JobClient | StreamExecutionEnvironment) -> QueryableStateClient:
    """A client to be closed before the servers are to end: they wait for open streams."""
    host, _, port = job.proxy_address().rpartition(":")
    return QueryableStateClient(host, int(port))


def counts(job: JobClient) -> list[int | None]:
    """Counts of a, b and c."""
    with client_of(job) as client:
        found = client.get_kv_states(job.job_id, "count", ["a", "b", "c"])
    return [None if state is None else state.value() for state in found]


def until_counted(env: StreamExecutionEnvironment, job_id: str, expected: int) -> None:
    """Waits until servers have been told of the commit that Spark's own waits end with."""
    with client_of(env) as client:

        def counted() -> int | None:
            (state,) = client.get_kv_states(job_id, "count", ["a"])
            return None if state is None else state.value()

        until(lambda: counted() == expected)


def test_a_job_that_is_started_again_goes_on(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    """In the same session, then with servers and coordinator gone, at another parallelism."""
    directory = str(tmp_path / "state")
    env = new_environment(checkpoint_directory=directory)
    source = feed(READINGS)
    source.add(reading("a"), reading("b"))
    source.add(reading("a"))
    first = count(env, source)
    assert first.state_root == f"{directory}/counting"
    first.cancel()
    source.add(reading("a"))
    again = count(env, source)
    assert again.job_id == first.job_id
    assert counts(again) == [3, 1, None]
    source.add(reading("b"), reading("c"))
    env = new_environment(checkpoint_directory=directory, backend="heap").set_parallelism(3)
    anew = count(env, source)
    assert anew.job_id == first.job_id
    assert counts(anew) == [3, 2, 1]


def test_a_server_that_is_killed_takes_nothing_along(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    """Of a query that has only its checkpoint location: state is beside it."""
    env = new_environment()
    source = feed(READINGS)
    source.add(reading("a"))
    job = count(env, source, checkpoint_location=str(tmp_path / "checkpoint"))
    assert job.trigger_checkpoint().state == "completed"
    assert [report.checkpoint_id for report in job.checkpoints()] == [1]
    for _ in range(2):
        (told,) = tmp_path.glob("queryable-state-*/server.json")
        os.kill(json.loads(told.read_text())["pid"], signal.SIGKILL)
        source.add(reading("a"))
        job.process_all_available()
    with client_of(job) as client:
        state = client.get_kv_state(job.job_id, "count", "a")
    assert (state.value(), state.info.complete_since_batch) == (3, 0)
    assert (tmp_path / "checkpoint.queryable-state" / "chk-1" / "_metadata").exists()


@pytest.mark.slow
def test_a_query_the_user_starts_is_durable_beside_its_checkpoint(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    source = feed(READINGS)
    for expected in (1, 2):
        env = new_environment()
        source.add(reading("a"))
        stream = env.from_dataframe(source.dataframe()).key_by("sensor")
        frame = stream.process(CountPerKey(), COUNTS).uid("counts").to_dataframe()
        writer = frame.writeStream.format("noop").outputMode("update")
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        query.processAllAvailable()
        until_counted(env, str(query.id), expected)
    assert (tmp_path / "checkpoint.queryable-state" / "changelog").is_dir()


@pytest.mark.slow
def test_a_batch_that_the_file_sink_committed_and_spark_did_not_counts_once(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    """The sink skips the batch when it runs again, so that no task of it ever does."""
    source = feed(READINGS)
    checkpoint, output = tmp_path / "checkpoint", tmp_path / "output"

    def run() -> tuple[str, StreamExecutionEnvironment]:
        env = new_environment()
        stream = env.from_dataframe(source.dataframe()).key_by("sensor")
        frame = stream.process(CountPerKey(), COUNTS).uid("counts").to_dataframe()
        writer = frame.writeStream.format("json").option("path", str(output))
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        query.processAllAvailable()
        return str(query.id), env

    source.add(reading("a"))
    source.add(reading("a"), reading("b"))
    _, env = run()
    env.close()
    # As after a kill between the two commits: nobody but the sink had heard of the batch's end.
    for commit in (checkpoint / "commits").glob("*1*"):
        commit.unlink()
    for manifest in (tmp_path / "checkpoint.queryable-state/changelog/1").glob("_manifest-*"):
        manifest.unlink()
    source.add(reading("a"))
    job_id, env = run()
    until_counted(env, job_id, 3)
    with client_of(env) as client:
        assert client.get_kv_state(job_id, "count", "b").value() == 1
    lines = [line for path in output.glob("*.json") for line in path.read_text().splitlines()]
    assert sorted(json.loads(line)["count"] for line in lines) == [1, 1, 2, 3]


class FailingSink:
    """Fails so often once its batch's tasks have run."""

    def __init__(self, failures: int) -> None:
        self.left = failures

    def write(self, batch: DataFrame, batch_id: int) -> None:
        batch.collect()
        if self.left:
            self.left -= 1
            raise OSError("the sink's disk is full")


def with_sink(env: StreamExecutionEnvironment, source: Feed, sink: FailingSink) -> JobClient:
    stream = env.from_dataframe(source.dataframe()).key_by("sensor")
    stream.process(CountPerKey(), COUNTS).uid("counts").add_sink(sink.write)
    return env.execute_async("failing")


def test_a_job_that_fails_is_restarted_by_its_strategy(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    env = new_environment(checkpoint_directory=str(tmp_path / "state"))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(2, 10))
    source = feed(READINGS)
    source.add(reading("a"), reading("b"))
    job = with_sink(env, source, FailingSink(2))
    job.process_all_available()
    assert (job.restarts, job.status()) == (2, JobStatus.RUNNING)
    assert counts(job) == [1, 1, None]
    job.cancel()
    assert job.status() is JobStatus.CANCELED


def test_checkpointing_without_a_place_keeps_state_in_the_driver(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    """By default a job that is checkpointed is restarted, and a server may be lost meanwhile."""
    env = new_environment().enable_checkpointing(60_000)
    source = feed(READINGS)
    source.add(reading("a"))
    job = with_sink(env, source, FailingSink(1))
    assert job.state_root.startswith("driver:/failing-")
    job.process_all_available()
    assert job.restarts == 1
    (told,) = tmp_path.glob("queryable-state-*/server.json")
    os.kill(json.loads(told.read_text())["pid"], signal.SIGKILL)
    source.add(reading("a"))
    job.process_all_available()
    assert counts(job) == [2, None, None]
    env.set_state_backend(MemoryStateBackend())
    assert isinstance(env.get_state_backend(), MemoryStateBackend)


def test_a_failure_without_a_strategy_is_the_end(
    new_environment: NewEnvironment, feed: MakeFeed
) -> None:
    source = feed(READINGS)
    source.add(reading("a"))
    job = with_sink(new_environment(), source, FailingSink(1))
    with pytest.raises(Exception, match="disk is full"):
        job.await_termination(60)
    assert job.status() is JobStatus.FAILED


def test_a_cancelled_job_may_leave_nothing(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    env = new_environment(checkpoint_directory=str(tmp_path / "state"))
    env.get_checkpoint_config().enable_externalized_checkpoints(
        ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION
    )
    source = feed(READINGS)
    source.add(reading("a"))
    count(env, source).cancel()
    assert files_of(tmp_path / "state") == []
    assert counts(count(env, source)) == [1, None, None]


def test_what_would_lose_state_is_refused_before_the_job_starts(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    source = feed(READINGS)
    source.add(reading("a"))
    count(new_environment(checkpoint_directory=str(state)), source).cancel()

    env = new_environment(checkpoint_directory=str(state)).set_max_parallelism(64)
    with pytest.raises(RestoreMismatchError, match=r"stored with 128.*set_max_parallelism\(128\)"):
        started(env, source)

    root, spark = state / "counting", state / "counting" / "spark"
    shutil.move(spark, tmp_path / "spark")
    with pytest.raises(RestoreMismatchError, match="does not exist: restore"):
        started(new_environment(checkpoint_directory=str(state)), source)

    shutil.move(root, tmp_path / "kept")
    root.mkdir()
    shutil.copytree(tmp_path / "spark", spark)
    with pytest.raises(CheckpointError, match=r"its state is not in .*/state/counting"):
        started(new_environment(checkpoint_directory=str(state)), source)
    source.add(reading("a"))
    env = new_environment(checkpoint_directory=str(state), allow_missing_state=True)
    job = count(env, source)
    with client_of(job) as client:
        state_of_a = client.get_kv_state(job.job_id, "count", "a", allow_incomplete=True)
    assert (state_of_a.value(), state_of_a.info.complete_since_batch) == (1, 1)


def test_a_directory_that_cannot_be_written_is_refused(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    source = feed(READINGS)
    with pytest.raises(CheckpointError, match="file/state/counting"):
        started(new_environment(checkpoint_directory=str(tmp_path / "file" / "state")), source)
    with pytest.raises(CheckpointError, match="nosuchscheme"):
        started(new_environment(checkpoint_directory="nosuchscheme://bucket/state"), source)
