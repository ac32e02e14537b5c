"""Savepoints: a job as of one batch, and another one that begins behind it."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.functions import COUNTS, READINGS, CountPerKey, KeepsFields
from tests.spark.waiting import until

from queryable_state.server.cli import main
from queryable_state.streaming import JobStatus, StreamExecutionEnvironment, Types
from queryable_state.streaming.spark.failure import failure_of
from queryable_state.wire.errors import InvalidRequestError, RestoreMismatchError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from tests.spark.conftest import Connect, MakeFeed
    from tests.spark.feed import Feed

    from queryable_state.streaming import JobClient

KEYS = [f"sensor-{number}" for number in range(40)]


def readings(keys: Iterable[str] = KEYS, temperature: float = 1.0) -> list[dict[str, object]]:
    return [{"sensor": key, "temperature": temperature} for key in keys]


class Jobs:
    """Starts jobs that count readings, each with a checkpoint location of its own."""

    def __init__(
        self, env: StreamExecutionEnvironment, source: Feed, connect: Connect, folder: Path
    ) -> None:
        self.env = env
        self.source = source
        self.connect = connect
        self.folder = folder

    def counting(self, name: str, **options: Any) -> JobClient:
        """A job whose only operator counts the readings of each sensor."""
        keyed = self.env.from_dataframe(self.source.dataframe()).key_by("sensor")
        keyed.process(CountPerKey(), COUNTS).uid("counts")
        return self.start(name, **options)

    def start(self, name: str, **options: Any) -> JobClient:
        """What the environment has collected."""
        return self.env.execute_async(name, checkpoint_location=str(self.folder / name), **options)

    def savepoint(self, job: JobClient, *, stop: bool = False) -> str:
        """The URI of a savepoint made now."""
        directory = str(self.folder / "savepoints")
        return job.stop_with_savepoint(directory) if stop else job.trigger_savepoint(directory)

    def values(self, job: JobClient, name: str = "count") -> Counter[object]:
        """How many keys have each value of a state."""
        states = self.connect(job).get_kv_states(job.job_id, name, KEYS)
        read = "value" if name == "count" else "get"
        return Counter(None if state is None else getattr(state, read)() for state in states)


@pytest.fixture
def jobs(env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect, tmp_path: Path) -> Jobs:
    return Jobs(env, feed(READINGS), connect, tmp_path)


@pytest.mark.parametrize(
    ("parallelism", "backends"), [(3, ("heap", "rocksdb")), (1, ("rocksdb", "heap"))]
)
def test_a_savepoint_of_a_running_job_is_resumed_at_another_parallelism_and_backend(
    jobs: Jobs, parallelism: int, backends: tuple[str, str]
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
    jobs.env._sinks, jobs.env._operators = [], []
    with caplog.at_level(logging.WARNING, "queryable_state.streaming"):
        removed = start("removed", "counts", savepoint=uri, allow_non_restored_state=True)
    assert "highest stays behind" in caplog.text
    removed.process_all_available()
    assert jobs.values(removed) == {2: len(KEYS)}


def test_rows_gain_and_lose_fields_and_any_other_change_is_refused_naming_both_types(
    jobs: Jobs,
) -> None:
    def start(name: str, fields: dict[str, Any], **options: Any) -> JobClient:
        row = Types.ROW_NAMED(list(fields), list(fields.values()))
        keyed = jobs.env.from_dataframe(jobs.source.dataframe()).key_by("sensor")
        keyed.process(KeepsFields(row), COUNTS).uid("keeps")
        return jobs.start(name, **options)

    jobs.source.add(*readings(temperature=1.0))
    first = start("first", {"kept": Types.INT(), "dropped": Types.LONG()})
    first.process_all_available()
    uri = jobs.savepoint(first, stop=True)
    jobs.source.add(*readings(KEYS[:1], temperature=2.0))
    changed = {"added": Types.LONG(), "kept": Types.LONG()}
    second = start("second", changed, savepoint=uri)
    second.process_all_available()
    client = jobs.connect(second)
    assert client.get_kv_state(second.job_id, "kept", KEYS[0]).value() == (2, 1)
    untouched = client.get_kv_state(second.job_id, "kept", KEYS[1]).value()
    assert untouched._fields == ("added", "kept")
    assert untouched == (None, 1)
    with pytest.raises(RestoreMismatchError, match=r"'kept' of operator 'keeps'.*int and is string"):
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

    frame = stream()
    query_id = env.restore_savepoint(uri, str(folder / "second"))
    second = write(frame, "second", "output")
    until(lambda: not second.isActive)
    failure = failure_of(second)
    assert isinstance(failure, RestoreMismatchError)
    assert "would skip batches 1 to 1" in str(failure)
    assert sorted(path.name for path in (folder / "second/offsets").glob("[0-9]*")) == ["0"]

    assert env.restore_savepoint(uri, str(folder / "second")) == query_id, "it is not seeded again"
    second = write(frame, "second", "other output")
    second.processAllAvailable()
    assert str(second.id).replace("-", "") == query_id
    rows = spark.read.schema("sensor string, count long").json(str(folder / "other output"))
    assert sorted(tuple(row) for row in rows.collect()) == [(key, 2) for key in sorted(KEYS[:2])]
    state = connect(env).get_kv_state(query_id, "count", KEYS[0])
    assert state.value() == 2


class TestRefusals:
    """What is no savepoint of the job, said before anything is written."""

    @pytest.fixture(scope="class")
    def uri(self, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
        """A savepoint of a job that counts, at max parallelism 128."""
        from tests.spark.feed import Feed

        folder = tmp_path_factory.mktemp("refusals")
        source = Feed(spark, folder / "feed", READINGS)
        source.add(*readings())
        env = StreamExecutionEnvironment.get_execution_environment(spark)
        keyed = env.from_dataframe(source.dataframe()).key_by("sensor")
        keyed.process(CountPerKey(), COUNTS).uid("counts").name("the counter")
        job = env.execute_async("refused", checkpoint_location=str(folder / "job"))
        job.process_all_available()
        return job.stop_with_savepoint(str(folder))

    def test_a_savepoint_of_another_job(self, jobs: Jobs, uri: str) -> None:
        keyed = jobs.env.from_dataframe(jobs.source.dataframe()).key_by("sensor")
        keyed.max("temperature", queryable_name="highest").uid("highest")
        with pytest.raises(
            RestoreMismatchError, match=r"'counts' \(the counter\).*'highest'.*no uid"
        ):
            jobs.start("new", savepoint=uri, allow_non_restored_state=True)
        assert not (jobs.folder / "new").exists()

    def test_another_max_parallelism(self, jobs: Jobs, uri: str) -> None:
        jobs.env.set_max_parallelism(64)
        with pytest.raises(RestoreMismatchError, match="max parallelism 64, and 128 in savepoint"):
            jobs.counting("new", savepoint=uri)

    def test_a_key_of_another_type(self, jobs: Jobs, uri: str, feed: MakeFeed) -> None:
        frame = feed("sensor long, temperature double").dataframe()
        keyed = jobs.env.from_dataframe(frame).key_by("sensor")
        keyed.process(CountPerKey(), Types.ROW_NAMED(["s", "c"], ["long", "long"])).uid("counts")
        with pytest.raises(RestoreMismatchError, match="its key type was string and is bigint"):
            jobs.start("new", savepoint=uri)

    def test_a_place_where_no_savepoint_is(self, jobs: Jobs) -> None:
        with pytest.raises(RestoreMismatchError, match="is no savepoint"):
            jobs.counting("new", savepoint=str(jobs.folder / "nothing"))

    def test_a_savepoint_without_its_progress(self, jobs: Jobs, uri: str, tmp_path: Path) -> None:
        import shutil
        from pathlib import Path

        broken = shutil.copytree(Path(uri), tmp_path / "broken")
        shutil.rmtree(broken / "spark/commits")
        with pytest.raises(RestoreMismatchError, match="broken: it has no spark/commits/0"):
            jobs.counting("new", savepoint=str(broken))

    def test_a_location_with_another_history(self, jobs: Jobs, uri: str) -> None:
        jobs.source.add(*readings())
        job = jobs.counting("used")
        job.process_all_available()
        job.cancel()
        with pytest.raises(RestoreMismatchError, match="would mix it with another history"):
            jobs.counting("used", savepoint=uri)
        jobs.env._sinks, jobs.env._operators = [], []
        again = jobs.counting("used")
        again.process_all_available()
        assert jobs.values(again) == {1: len(KEYS)}

    def test_a_job_without_a_lasting_place(self, jobs: Jobs, uri: str) -> None:
        keyed = jobs.env.from_dataframe(jobs.source.dataframe()).key_by("sensor")
        keyed.process(CountPerKey(), COUNTS).uid("counts")
        with pytest.raises(InvalidRequestError, match="no lasting place"):
            jobs.env.execute_async("new", savepoint=uri)

    def test_streams_that_were_not_taken(self, jobs: Jobs, uri: str) -> None:
        with pytest.raises(InvalidRequestError, match="to_dataframe"):
            jobs.env.restore_savepoint(uri, str(jobs.folder / "new"))
