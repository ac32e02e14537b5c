"""Savepoints: a job as of one batch, and another one that begins behind it."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.counting_jobs import KEYS, Jobs, readings
from tests.spark.functions import COUNTS, READINGS, CountPerKey, KeepsFields
from tests.spark.waiting import until

from queryable_state.cli import main
from queryable_state.streaming import (
    JobStatus,
    MemoryStateBackend,
    StreamExecutionEnvironment,
    Types,
)
from queryable_state.streaming.spark.queries.failure import failure_of
from queryable_state.wire.errors import CheckpointError, RestoreMismatchError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from tests.spark.conftest import Connect, MakeFeed, NewEnvironment

    from queryable_state.streaming import JobClient


@pytest.fixture
def jobs(env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect, tmp_path: Path) -> Jobs:
    return Jobs(env, feed(READINGS), connect, tmp_path)


@pytest.fixture
def often_compacted(spark: SparkSession) -> Iterator[None]:
    """Every second batch the log of a file source is compacted, and what was before is removed."""
    conf = {"compactInterval": "2", "cleanupDelay": "0"}
    for name, value in conf.items():
        spark.conf.set(f"spark.sql.streaming.fileSource.log.{name}", value)
    yield
    for name in conf:
        spark.conf.unset(f"spark.sql.streaming.fileSource.log.{name}")


@pytest.mark.parametrize(
    ("parallelism", "backends"),
    [(3, ("heap", "rocksdb")), pytest.param(1, ("rocksdb", "heap"), marks=pytest.mark.slow)],
)
def test_a_savepoint_of_a_running_job_is_resumed_at_another_parallelism_and_backend(
    jobs: Jobs, often_compacted: None, parallelism: int, backends: tuple[str, str]
) -> None:
    """Every key is right, and no record counts twice: batches go on while it is written."""
    for _ in range(3):
        jobs.source.add(*readings())
    jobs.env.set_parallelism(2).set_state_backend(backends[0])
    first = jobs.counting("first")
    first.process_all_available()
    uris: list[str] = []
    writing = threading.Thread(target=lambda: uris.append(jobs.savepoint(first)))
    writing.start()
    for _ in range(3):
        jobs.source.add(*readings())
    writing.join()
    first.process_all_available()
    assert jobs.values(first) == {6: len(KEYS)}
    jobs.env.set_parallelism(parallelism).set_state_backend(backends[1])
    second = jobs.counting("second", savepoint=uris[0])
    assert second.job_id != first.job_id
    second.process_all_available()
    assert jobs.values(second) == {6: len(KEYS)}
    jobs.source.add(*readings(KEYS[:5]))
    second.process_all_available()
    assert jobs.values(second) == {6: len(KEYS) - 5, 7: 5}
    first.process_all_available()
    assert jobs.values(first) == {6: len(KEYS) - 5, 7: 5}, "it runs on beside the second"


def test_nothing_is_processed_behind_the_savepoint_a_job_is_stopped_with(jobs: Jobs) -> None:
    """And the program with the savepoint in it goes on from its own checkpoint afterwards."""
    jobs.source.add(*readings())
    first = jobs.counting("first")
    first.process_all_available()
    uri = jobs.savepoint(first, stop=True)
    assert first.status() is JobStatus.FINISHED
    jobs.source.add(*readings())
    ids, values = [], []
    for _ in range(2):
        job = jobs.counting("second", savepoint=uri)
        jobs.source.add(*readings())
        job.process_all_available()
        ids.append(job.job_id)
        values.append(jobs.values(job))
        job.cancel()
    assert len({first.job_id, *ids}) == 2
    assert values == [{3: len(KEYS)}, {4: len(KEYS)}]


@pytest.mark.slow
def test_a_job_from_a_savepoint_goes_on_in_another_driver(
    jobs: Jobs, new_environment: NewEnvironment
) -> None:
    """Before its first checkpoint: from the savepoint and the changelogs behind it."""
    jobs.env = new_environment()
    jobs.source.add(*readings())
    first = jobs.counting("first")
    first.process_all_available()
    uri = jobs.savepoint(first, stop=True)
    jobs.source.add(*readings())
    second = jobs.counting("second", savepoint=uri)
    second.process_all_available()
    jobs.source.add(*readings(KEYS[:5]))
    second.process_all_available()
    jobs.env = new_environment()
    again = jobs.counting("second", savepoint=uri)
    assert again.job_id == second.job_id
    jobs.source.add(*readings())
    again.process_all_available()
    assert jobs.values(again) == {3: len(KEYS) - 5, 4: 5}
    third = jobs.counting("third", savepoint=jobs.savepoint(again, stop=True))
    jobs.source.add(*readings())
    third.process_all_available()
    assert jobs.values(third) == {4: len(KEYS) - 5, 5: 5}


def test_a_job_that_keeps_nothing_can_be_stopped_with_a_savepoint(jobs: Jobs) -> None:
    jobs.source.add(*readings())
    keyed = jobs.env.from_dataframe(jobs.source.dataframe()).key_by("sensor")
    keyed.process(CountPerKey(), COUNTS).uid("counts")
    first = jobs.env.execute_async("fleeting")
    first.process_all_available()
    assert first.state_root == ""
    uri = jobs.savepoint(first, stop=True)
    jobs.env.set_state_backend(MemoryStateBackend())
    second = jobs.counting("lasting", savepoint=uri)
    jobs.source.add(*readings())
    second.process_all_available()
    assert jobs.values(second) == {2: len(KEYS)}
    assert second.state_root.startswith("driver:")


def test_operators_are_added_and_removed_by_uid(
    jobs: Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    def start(name: str, operators: str, **options: Any) -> JobClient:
        keyed = jobs.env.from_dataframe(jobs.source.dataframe()).key_by("sensor")
        if "counts" in operators:
            keyed.process(CountPerKey(), COUNTS).uid("counts")
        if "highest" in operators:
            keyed.max("temperature", queryable_name="highest").uid("highest").name("the highest")
        if "lowest" in operators:
            keyed.min("temperature", queryable_name="lowest").uid("lowest")
        return jobs.start(name, **options)

    jobs.source.add(*readings(temperature=5.0))
    first = start("first", "counts highest")
    first.process_all_available()
    uri = jobs.savepoint(first, stop=True)
    jobs.source.add(*readings(temperature=1.0))

    added = start("added", "counts highest lowest", savepoint=uri)
    added.process_all_available()
    assert jobs.values(added, "highest") == {5.0: len(KEYS)}
    assert jobs.values(added, "lowest") == {1.0: len(KEYS)}, "it has not seen the first batch"
    added.cancel()

    with pytest.raises(
        RestoreMismatchError, match=r"'highest' \(the highest\).*allow_non_restored"
    ):
        start("removed", "counts lowest", savepoint=uri)
    assert not (jobs.folder / "removed").exists()
    with caplog.at_level(logging.WARNING, "queryable_state.streaming"):
        removed = start("removed", "counts", savepoint=uri, allow_non_restored_state=True)
    assert "the operators highest in" in caplog.text
    removed.process_all_available()
    assert jobs.values(removed) == {2: len(KEYS)}
    later = start("later", "counts highest", savepoint=jobs.savepoint(removed, stop=True))
    jobs.source.add(*readings(temperature=2.0))
    later.process_all_available()
    assert jobs.values(later) == {3: len(KEYS)}
    assert jobs.values(later, "highest") == {2.0: len(KEYS)}, "what was left behind is gone"


def test_rows_gain_and_lose_fields_and_any_other_change_is_refused_naming_both_types(
    jobs: Jobs,
) -> None:
    def start(
        name: str, fields: dict[str, Any], dropped: tuple[str, ...] = (), **options: Any
    ) -> JobClient:
        row = Types.ROW_NAMED(list(fields), list(fields.values()))
        keyed = jobs.env.from_dataframe(jobs.source.dataframe()).key_by("sensor")
        keyed.process(KeepsFields(row, dropped), COUNTS).uid("keeps")
        return jobs.start(name, **options)

    jobs.source.add(*readings(temperature=1.0))
    first = start("first", {"kept": Types.INT(), "dropped": Types.LONG()})
    first.process_all_available()
    uri = jobs.savepoint(first, stop=True)
    jobs.source.add(*readings(KEYS[:1], temperature=2.0))
    changed = {"added": Types.LONG(), "kept": Types.LONG()}
    second = start("second", changed, ("dropped",), savepoint=uri)
    second.process_all_available()
    client = jobs.connect(second)
    assert client.get_kv_state(second.job_id, "kept", KEYS[0]).value() == (2, 1)
    untouched = client.get_kv_state(second.job_id, "kept", KEYS[1]).value()
    assert untouched._fields == ("added", "kept")
    assert untouched == (None, 1)
    with pytest.raises(
        RestoreMismatchError, match=r"'kept' of operator 'keeps'.*int and is string"
    ):
        start("third", {"kept": Types.STRING()}, savepoint=uri)


def test_the_parallelism_of_a_checkpoint_is_changed_without_a_savepoint(jobs: Jobs) -> None:
    for number, parallelism in enumerate((2, 3, 1)):
        jobs.source.add(*readings())
        jobs.env.set_parallelism(parallelism)
        job = jobs.counting("same")
        job.process_all_available()
        assert jobs.values(job) == {number + 1: len(KEYS)}
        job.cancel()


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
