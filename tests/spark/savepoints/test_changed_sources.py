"""Savepoints resumed by programs whose sources are others, or stand in another order."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F
from tests.spark.functions import COUNTS, READINGS, CountPerKey

from queryable_state.streaming import StreamExecutionEnvironment
from queryable_state.streaming.graph.nodes import SourceNode
from queryable_state.streaming.spark.plan.plan_sources import query_sources
from queryable_state.wire.errors import RestoreMismatchError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.spark.conftest import Connect, MakeFeed

    from queryable_state.streaming import JobClient

EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
KEYS = ["k0", "k1", "k2"]


class Counting:
    """Jobs that count each of several feeds with an operator of its own, `<feed>-counts`."""

    def __init__(
        self, env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect, folder: Path
    ) -> None:
        self.env = env
        self.feeds = {name: feed(READINGS) for name in ("a", "b", "c")}
        self.connect = connect
        self.folder = folder

    def add(self, **times: int) -> None:
        """One reading per key, as often as said, to the feeds of these names."""
        for name, count in times.items():
            for _ in range(count):
                self.feeds[name].add(*({"sensor": key, "temperature": 1.0} for key in KEYS))

    def start(self, name: str, feeds: str, *, uids: bool = True, **options: Any) -> JobClient:
        """Starts a job with these feeds, and runs it until they are read."""
        for each in feeds:
            stream = self.env.from_dataframe(self.feeds[each].dataframe())
            if uids:
                stream = stream.uid(f"source-{each}")
            counted = stream.key_by("sensor").process(CountPerKey(f"count-{each}"), COUNTS)
            counted.uid(f"{each}-counts")
        job = self.env.execute_async(name, checkpoint_location=str(self.folder / name), **options)
        job.process_all_available()
        return job

    def savepoint(self, job: JobClient) -> str:
        return job.stop_with_savepoint(False, str(self.folder / "savepoints")).result()

    def counts(self, job: JobClient, feeds: str) -> dict[str, int]:
        """The count of the keys of each feed, which is the same for all."""
        client = self.connect(job)
        found = {}
        for each in feeds:
            states = client.get_kv_states(job.job_id, f"count-{each}", KEYS)
            (found[each],) = {state.value() for state in states if state is not None}
        return found


def test_the_sources_of_a_plan_are_those_of_its_offsets(
    spark: SparkSession, feed: MakeFeed, tmp_path: Path
) -> None:
    """A source that is read twice has two offsets and one folder. Options may hold secrets."""
    files = feed(READINGS).dataframe().select(F.lit(0).cast("long").alias("value"))
    rate = spark.readStream.format("rate").option("rowsPerSecond", 3).load().select("value")
    socket = spark.readStream.format("socket").option("host", "h").option("port", 1)
    lines = socket.option("my.password", "hush").load().select(F.length("value").alias("value"))
    whole = files.union(rate).union(lines.select(F.col("value").cast("long"))).union(files)
    env = StreamExecutionEnvironment.get_execution_environment(spark)
    node = env.from_dataframe(rate).uid("ticks")._node
    assert isinstance(node, SourceNode)
    found = query_sources(whole, [node])
    folder = f"{tmp_path}/feed-0"
    assert [(s.key, s.folder, s.uid, s.kind, s.location) for s in found] == [
        ("0", "0", "", "file", folder),
        ("1", "1", "ticks", "rate", ""),
        ("2", "2", "", "socket", "h 1"),
        ("3", "0", "", "file", folder),
    ]
    location = tmp_path / "checkpoint"
    files.union(rate).union(files).writeStream.format("noop").option(
        "checkpointLocation", str(location)
    ).trigger(availableNow=True).start().awaitTermination()
    without = query_sources(files.union(rate).union(files), [])
    assert len((location / "offsets/0").read_text().split("\n")[2:]) == len(without)
    assert {path.name for path in (location / "sources").iterdir()} <= {s.folder for s in without}


def test_a_name_in_spark_identifies_a_source(spark: SparkSession) -> None:
    spark.conf.set(EVOLUTION, "true")
    try:
        named = spark.readStream.format("rate").name("ticks").load()
    finally:
        spark.conf.unset(EVOLUTION)
    (found,) = query_sources(named, [])
    assert (found.key, found.folder, found.uid) == ("ticks", "ticks", "ticks")


@pytest.fixture
def jobs(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect, tmp_path: Path
) -> Counting:
    return Counting(env, feed, connect, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("uids", [True, False])
def test_sources_are_reordered_added_and_removed(jobs: Counting, uids: bool) -> None:
    """Feed `a` has three batches and `b` one: exchanged offsets would count other rows."""
    jobs.add(a=3, b=1)
    first = jobs.start("first", "ab", uids=uids)
    assert jobs.counts(first, "ab") == {"a": 3, "b": 1}
    uri = jobs.savepoint(first)
    jobs.add(a=1, b=2, c=2)

    reordered = jobs.start("reordered", "ba", uids=uids, savepoint=uri)
    assert jobs.counts(reordered, "ab") == {"a": 4, "b": 3}
    reordered.cancel()

    added = jobs.start("added", "cab", uids=uids, savepoint=uri)
    assert jobs.counts(added, "abc") == {"a": 4, "b": 3, "c": 2}
    jobs.add(a=1, c=1)
    added.process_all_available()
    assert jobs.counts(added, "abc") == {"a": 5, "b": 3, "c": 3}
    later = jobs.savepoint(added)

    with pytest.raises(RestoreMismatchError, match=r"does not have: .*allow_non_restored_state"):
        jobs.start("refused", "cb", uids=uids, savepoint=later)
    assert not (jobs.folder / "refused").exists()
    jobs.add(b=1, c=1)
    removed = jobs.start("removed", "bc", uids=uids, savepoint=later, allow_non_restored_state=True)
    assert jobs.counts(removed, "bc") == {"b": 4, "c": 4}
    jobs.add(b=1)
    removed.cancel()
    again = jobs.start("removed", "bc", uids=uids, savepoint=later, allow_non_restored_state=True)
    assert jobs.counts(again, "bc") == {"b": 5, "c": 4}


@pytest.mark.slow
def test_only_the_source_is_removed_and_its_operator_reads_another_one(jobs: Counting) -> None:
    """The operators claim all state, so what is missing is the source."""
    jobs.add(a=2, b=1)
    uri = jobs.savepoint(jobs.start("first", "ab"))
    jobs.add(a=1, b=1)

    def united(name: str, **options: Any) -> JobClient:
        stream = jobs.env.from_dataframe(jobs.feeds["b"].dataframe()).uid("source-b")
        for each in "ab":
            keyed = stream.key_by("sensor")
            keyed.process(CountPerKey(f"count-{each}"), COUNTS).uid(f"{each}-counts")
        job = jobs.env.execute_async(
            name, checkpoint_location=str(jobs.folder / name), savepoint=uri, **options
        )
        job.process_all_available()
        return job

    with pytest.raises(RestoreMismatchError, match=r"does not have: 'source-a' \(file "):
        united("refused")
    job = united("united", allow_non_restored_state=True)
    assert jobs.counts(job, "ab") == {"a": 3, "b": 2}


@pytest.mark.slow
def test_a_source_is_united_with_itself_in_one_plan(jobs: Counting) -> None:
    """Its offset is twice in the log of the savepoint, and once afterwards."""

    def start(name: str, times: int, **options: Any) -> JobClient:
        stream = jobs.env.from_dataframe(jobs.feeds["a"].dataframe())
        whole = stream.union(*([stream] * (times - 1))) if times > 1 else stream
        keyed = whole.key_by("sensor", order_by=None)
        keyed.process(CountPerKey("count-a"), COUNTS).uid("a-counts")
        job = jobs.env.execute_async(name, checkpoint_location=str(jobs.folder / name), **options)
        job.process_all_available()
        return job

    jobs.add(a=2)
    first = start("first", 2)
    assert jobs.counts(first, "a") == {"a": 4}
    uri = jobs.savepoint(first)
    jobs.add(a=1)
    assert jobs.counts(start("second", 1, savepoint=uri), "a") == {"a": 5}


@pytest.mark.slow
def test_a_restart_with_other_sources_is_refused_before_spark_does(jobs: Counting) -> None:
    jobs.add(a=2, b=1)
    jobs.start("job", "ab").cancel()
    for feeds, why in (("ba", r"source 1 was 'source-a' .* and is 'source-b'"), ("b", "2 sources")):
        with pytest.raises(RestoreMismatchError, match=rf"(?s){why}.*stop_with_savepoint"):
            jobs.start("job", feeds, allow_non_restored_state=True)
    with pytest.raises(RestoreMismatchError, match=r"was 'source-b' .* and is 'source-c'"):
        jobs.start("job", "ac", allow_non_restored_state=True)
    jobs.add(a=1)
    again = jobs.start("job", "ab")
    assert jobs.counts(again, "ab") == {"a": 3, "b": 1}


@pytest.mark.slow
def test_a_savepoint_without_a_record_of_its_sources_goes_by_their_places(jobs: Counting) -> None:
    jobs.add(a=2, b=1)
    uri = jobs.savepoint(jobs.start("first", "ab"))
    record = next((jobs.folder / "savepoints").glob("*/spark/sources.json"))
    assert [each["uid"] for each in json.loads(record.read_text())["sources"]] == [
        "source-a",
        "source-b",
    ]
    record.unlink()
    jobs.add(a=1, b=1)
    second = jobs.start("second", "ab", savepoint=uri)
    assert jobs.counts(second, "ab") == {"a": 3, "b": 2}
    with pytest.raises(RestoreMismatchError, match="no record of its sources"):
        jobs.start("third", "abc", savepoint=uri)
    assert not (jobs.folder / "third").exists()
