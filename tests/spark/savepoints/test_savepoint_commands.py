"""Savepoints by settings, by the command line, and of queries the user starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.counting_jobs import KEYS, Jobs, readings
from tests.spark.functions import COUNTS, CountPerKey
from tests.waiting import until

from queryable_state.cli import main
from queryable_state.streaming import JobStatus, StreamExecutionEnvironment
from queryable_state.streaming.spark.queries.failure import failure_of
from queryable_state.wire.errors import CheckpointError, RestoreMismatchError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from tests.spark.conftest import Connect


def test_a_job_keeps_its_savepoint_where_settings_say(jobs: Jobs, spark: SparkSession) -> None:
    """Names as Flink has them, and the command; the job's root is in one directory."""
    jobs.source.add(*readings())
    first = jobs.counting("first")
    first.process_all_available()
    uri = jobs.savepoint(first, stop=True)
    conf = {
        "state.checkpoints.dir": str(jobs.folder / "checkpoints"),
        "execution.savepoint.path": uri,
        "execution.savepoint.ignore-unclaimed-state": "true",
    }
    for name, value in conf.items():
        spark.conf.set(name, value)
    try:
        env = StreamExecutionEnvironment.get_execution_environment(spark)
    finally:
        for name in conf:
            spark.conf.unset(name)
    jobs.source.add(*readings())
    keyed = env.from_dataframe(jobs.source.dataframe()).key_by("sensor")
    keyed.process(CountPerKey(), COUNTS).uid("counts")
    second = env.execute_async("second")
    second.process_all_available()
    assert jobs.values(second) == {2: len(KEYS)}
    assert (jobs.folder / "checkpoints/second/spark/metadata").exists()


def test_the_command_writes_a_savepoint_and_stops_the_job(
    jobs: Jobs, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs.source.add(*readings())
    job = jobs.counting("commanded")
    job.process_all_available()
    arguments = [
        "savepoint",
        "commanded",
        str(jobs.folder / "savepoints"),
        f"--coordinator={jobs.env.coordinator_address}",
        f"--secret-file={jobs.env.secret_file}",
    ]
    assert main(arguments) == 0
    assert job.status() is JobStatus.RUNNING
    assert main([*arguments, "--stop"]) == 0
    until(lambda: job.status() is JobStatus.FINISHED)
    uris = capsys.readouterr().out.split()
    assert len(set(uris)) == 2
    resumed = jobs.counting("resumed", savepoint=uris[1])
    jobs.source.add(*readings())
    resumed.process_all_available()
    assert jobs.values(resumed) == {2: len(KEYS)}
    resumed.cancel()
    assert main(["savepoint", "nobody", *arguments[2:]]) == 2
    assert "nobody" in capsys.readouterr().err


def test_a_query_of_the_user_begins_behind_a_savepoint_and_not_in_a_file_sink_that_is_ahead(
    jobs: Jobs, spark: SparkSession, connect: Connect
) -> None:
    env, folder = jobs.env, jobs.folder

    def stream() -> DataFrame:
        keyed = env.from_dataframe(jobs.source.dataframe()).key_by("sensor")
        return keyed.process(CountPerKey(), COUNTS).uid("counts").to_dataframe()

    def write(frame: DataFrame, location: str, output: str) -> Any:
        writer = frame.writeStream.option("checkpointLocation", str(folder / location))
        return writer.start(str(folder / output), format="json", outputMode="append")

    jobs.source.add(*readings(KEYS[:2]))
    first = write(stream(), "first", "output")
    first.processAllAvailable()
    coordinator = env._running_application().coordinator
    uri, version = coordinator.trigger_savepoint(
        str(first.id), str(folder / "savepoints"), timeout_s=60
    )
    assert version == 0
    jobs.source.add(*readings(KEYS[:2]))
    first.processAllAvailable()
    first.stop()

    temporary = stream().writeStream.format("noop").outputMode("append").start()
    temporary.processAllAvailable()
    with pytest.raises(CheckpointError, match="take a savepoint while it runs"):
        coordinator.trigger_savepoint(str(temporary.id), str(folder / "savepoints"), stop=True)
    assert temporary.isActive
    temporary.stop()

    frame = stream()
    query_id = env.restore_savepoint(uri, str(folder / "second"))
    second = write(frame, "second", "output")
    until(lambda: not second.isActive)
    failure = failure_of(second)
    assert isinstance(failure, RestoreMismatchError)
    assert "would silently skip batches 1 to 1" in str(failure)
    assert sorted(path.name for path in (folder / "second/offsets").glob("[0-9]*")) == ["0"]

    assert env.restore_savepoint(uri, str(folder / "second")) == query_id, "it is not seeded again"
    second = write(frame, "second", "other output")
    second.processAllAvailable()
    assert str(second.id).replace("-", "") == query_id
    rows = spark.read.schema("sensor string, count long").json(str(folder / "other output"))
    assert sorted(tuple(row) for row in rows.collect()) == [(key, 2) for key in sorted(KEYS[:2])]
    state = connect(env).get_kv_state(query_id, "count", KEYS[0])
    assert state.value() == 2
