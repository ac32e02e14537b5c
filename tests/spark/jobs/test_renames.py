"""Programs whose operators, states and fields have other names when they are started again."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from tests.spark.folders import files_of
from tests.spark.functions import COUNTS, READINGS, CountPerKey

from queryable_state.client.blocking import QueryableStateClient
from queryable_state.wire.errors import JobError, RestoreMismatchError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from tests.spark.conftest import MakeFeed, NewEnvironment
    from tests.spark.feed import Feed

    from queryable_state.streaming import JobClient, StreamExecutionEnvironment
    from queryable_state.streaming.datastream import OperatorStream


def readings(count: int = 3) -> list[dict[str, object]]:
    return [{"sensor": "a", "temperature": float(number)} for number in range(count)]


def counting(env: StreamExecutionEnvironment, source: Feed, uid: str) -> OperatorStream:
    keyed = env.from_dataframe(source.dataframe()).key_by("sensor")
    return keyed.process(CountPerKey(), COUNTS).uid(uid)


def value(address: str, job: str, name: str) -> Any:
    host, _, port = address.rpartition(":")
    with QueryableStateClient(host, int(port)) as client:
        return client.get_kv_state(job, name, "a").value()


def test_a_job_with_a_renamed_uid_is_refused_before_it_starts_and_goes_on_with_the_old_one(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    settings = {"checkpoint_directory": str(tmp_path / "state")}
    source = feed(READINGS)
    source.add(*readings())

    def started(env: StreamExecutionEnvironment, uid: str) -> JobClient:
        counting(env, source, uid)
        job = env.execute_async("counting")
        job.process_all_available()
        return job

    started(new_environment(**settings), "counts").cancel()
    env = new_environment(**settings)
    before = files_of(tmp_path / "state")
    with pytest.raises(RestoreMismatchError) as refusal:
        started(env, "counter")
    for part in ("'counts'", "'count' (queryable as 'count')", "'counter'", "allow_non_restored"):
        assert part in str(refusal.value)
    assert files_of(tmp_path / "state") == before
    source.add(*readings())
    job = started(env, "counts")
    assert value(job.proxy_address(), job.job_id, "count") == 6


class UserStarted:
    """Queries that a user starts himself, one after another, from one checkpoint."""

    def __init__(self, folder: Path) -> None:
        self._location = str(folder / "checkpoint")

    def run(self, frame: DataFrame) -> StreamingQuery:
        """Runs what there is; the query goes on."""
        writer = frame.writeStream.option("checkpointLocation", self._location)
        query = writer.format("noop").outputMode("update").start()
        query.processAllAvailable()
        return query


@pytest.mark.slow
def test_a_query_its_user_starts_is_refused_at_its_first_batch(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    """Its operators are those of its plan: a new one may come before the one with the state."""
    source, queries = feed(READINGS), UserStarted(tmp_path)
    source.add(*readings())
    queries.run(counting(new_environment(), source, "counts").to_dataframe()).stop()
    source.add(*readings())

    # It ends the servers, which may still have been writing.
    env = new_environment()
    stored = [path for path in files_of(tmp_path) if "changelog" in path.parts]
    assert stored
    with pytest.raises(StreamingQueryException, match=r"(?s)'counts'.*'counter'") as failed:
        queries.run(counting(env, source, "counter").to_dataframe())
    assert "allow_non_restored_state" in str(failed.value)
    assert stored == [path for path in files_of(tmp_path) if "changelog" in path.parts]

    env = new_environment()
    keyed = env.from_dataframe(source.dataframe()).key_by("sensor")
    first = keyed.process(CountPerKey("new"), COUNTS).uid("before it")
    behind = first.key_by("sensor").process(CountPerKey(), COUNTS).uid("counts")
    query = queries.run(behind.to_dataframe())
    assert value(env.proxy_address(), uuid.UUID(str(query.id)).hex, "count") == 6
    query.stop()

    frame = counting(new_environment(savepoint_ignore_unclaimed_state=True), source, "new")
    queries.run(frame.to_dataframe()).stop()


def latest(
    env: StreamExecutionEnvironment, source: Feed, column: str, *, renamed: bool = False
) -> JobClient:
    """The newest reading of a sensor, under a name for its temperature."""
    frame = source.dataframe().withColumnRenamed("temperature", column)
    stream = env.from_dataframe(frame).key_by("sensor").as_queryable_state("latest").uid("latest")
    if renamed:
        stream.renamed_fields({column: "temperature"})
    job = env.execute_async("latest")
    job.process_all_available()
    return job


def test_a_renamed_column_keeps_its_values_for_clients_and_is_refused_unless_it_is_said(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    settings = {"checkpoint_directory": str(tmp_path / "state")}
    source = feed(READINGS)
    source.add({"sensor": "a", "temperature": 20.5}, {"sensor": "b", "temperature": 1.0})
    latest(new_environment(**settings), source, "temperature").cancel()
    env = new_environment(**settings)
    with pytest.raises(JobError, match=r"'temperature' \(double\).*'celsius' \(double\)"):
        latest(env, source, "celsius")
    job = latest(env, source, "celsius", renamed=True)
    host, _, port = job.proxy_address().rpartition(":")
    with QueryableStateClient(host, int(port)) as client:
        assert client.get_kv_state(job.job_id, "latest", "a").value()["celsius"] == 20.5
        source.add({"sensor": "b", "temperature": 2.0})
        job.process_all_available()
        found = client.get_kv_states(job.job_id, "latest", ["a", "b"])
        assert [state.value()["celsius"] for state in found if state] == [20.5, 2.0]
