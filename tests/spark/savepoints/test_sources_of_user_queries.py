"""Queries that the user starts from a savepoint with other sources, or with the same reordered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.spark.counting_jobs import KEYS, Jobs
from tests.spark.functions import COUNTS, READINGS, CountPerKey
from tests.waiting import until

from queryable_state.wire.errors import RestoreMismatchError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from tests.spark.conftest import Connect, MakeFeed


class _Counting:
    """Queries with a counting operator behind each feed, united in the order of their names."""

    def __init__(self, jobs: Jobs, feed: MakeFeed, connect: Connect) -> None:
        self.folder = jobs.folder
        self._env, self._connect = jobs.env, connect
        self._feeds = {name: feed(READINGS) for name in "abc"}

    def add(self, **times: int) -> None:
        for name, count in times.items():
            for _ in range(count):
                self._feeds[name].add(*({"sensor": key, "temperature": 1.0} for key in KEYS))

    def query(self, names: str) -> DataFrame:
        whole: DataFrame | None = None
        for each in names:
            stream = self._env.from_dataframe(self._feeds[each].dataframe()).key_by("sensor")
            counted = stream.process(CountPerKey(f"count-{each}"), COUNTS).uid(f"{each}-counts")
            frame = counted.to_dataframe()
            whole = frame if whole is None else whole.union(frame)
        assert whole is not None
        return whole

    def start(self, query: DataFrame, location: str) -> StreamingQuery:
        writer = query.writeStream.format("noop").outputMode("append")
        return writer.option("checkpointLocation", str(self.folder / location)).start()

    def savepoint(self, query: StreamingQuery) -> str:
        coordinator = self._env._running_application().coordinator
        folder = str(self.folder / "savepoints")
        return coordinator.trigger_savepoint(str(query.id), folder, stop=True)[0]

    def value(self, query: StreamingQuery, feed: str) -> int:
        client = self._connect(self._env)
        value = client.get_kv_state(str(query.id), f"count-{feed}", KEYS[0]).value()
        assert isinstance(value, int)
        return value


def test_a_query_of_the_user_never_goes_on_with_the_offsets_of_other_sources(
    jobs: Jobs, feed: MakeFeed, connect: Connect
) -> None:
    """Two sources of one format: swapped, one less, one more."""
    run, env = _Counting(jobs, feed, connect), jobs.env
    run.add(a=1, b=2)
    first = run.start(run.query("ab"), "first")
    first.processAllAvailable()
    uri = run.savepoint(first)

    swapped = run.query("ba")
    env.restore_savepoint(uri, str(run.folder / "swapped"), query=swapped)
    run.add(a=3)
    second = run.start(swapped, "swapped")
    second.processAllAvailable()
    assert (run.value(second, "a"), run.value(second, "b")) == (4, 2)
    second.stop()

    with pytest.raises(RestoreMismatchError, match="sources that the job does not have: file"):
        env.restore_savepoint(uri, str(run.folder / "less"), query=jobs.source.dataframe())
    assert not (run.folder / "less").exists()

    # The start does not know which source is which: it is refused, before any batch.
    unknown = run.query("ba")
    env.restore_savepoint(uri, str(run.folder / "unknown"))
    third = run.start(unknown, "unknown")
    until(lambda: not third.isActive)
    assert third.exception() is not None
    offsets = (run.folder / "unknown" / "offsets").glob("[0-9]*")
    assert {each.name for each in offsets} == {
        each.name for each in (run.folder / "first" / "offsets").glob("[0-9]*")
    }
