"""Jobs whose program begins or ceases to need batches without input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.event_time.clock_functions import READING, Sum, SumWithTimers, reading
from tests.spark.event_time.test_marker_batches import keyed, markers

from queryable_state.wire.errors import RestoreMismatchError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.conftest import MakeFeed

    from queryable_state.streaming import JobClient, StreamExecutionEnvironment


class Jobs:
    """Sums of one feed, in jobs with a folder each."""

    def __init__(self, env: StreamExecutionEnvironment, feed: MakeFeed, folder: Path) -> None:
        self.env = env
        self.source = feed("k STRING, t LONG")
        self.folder = folder

    def start(
        self, function: Sum, name: str, savepoint: str | None = None, *, lossy: bool = False
    ) -> JobClient:
        """Starts a job, and runs it until the feed is read."""
        self.rows: list[Any] = []
        rows = self.rows
        stream = self.env.from_dataframe(self.source.dataframe()).map(reading, READING)
        sums = keyed(stream).process(function, READING).uid("sums")
        sums.add_sink(lambda batch, _: rows.extend(tuple(row.value) for row in batch.collect()))
        job: JobClient = self.env.execute_async(
            name,
            checkpoint_location=str(self.location(name)),
            savepoint=savepoint,
            allow_non_restored_state=lossy,
        )
        job.process_all_available()
        return job

    def location(self, name: str) -> Path:
        return self.folder / name

    def stopped(self, job: JobClient) -> str:
        return job.stop_with_savepoint(False, str(self.folder / "savepoints")).result()


@pytest.fixture
def jobs(env: StreamExecutionEnvironment, feed: MakeFeed, tmp_path: Path) -> Jobs:
    return Jobs(env, feed, tmp_path)


@pytest.mark.slow
def test_a_savepoint_starts_a_job_that_has_timers_now_or_has_none_any_more(jobs: Jobs) -> None:
    """Each continues behind the input of the savepoint, with its state; pending timers are state
    that must not be lost unasked."""
    functions = [Sum(), SumWithTimers(), SumWithTimers(), Sum()]
    savepoint = None
    for number, function in enumerate(functions):
        jobs.source.add({"k": "a", "t": 10**number})
        if number == 3:
            with pytest.raises(RestoreMismatchError, match=r"'sums' .* 'timers'"):
                jobs.start(function, "refused", savepoint)
        job = jobs.start(function, f"job-{number}", savepoint, lossy=number == 3)
        assert jobs.rows == [("a", int("1" * (number + 1)))]
        savepoint = jobs.stopped(job)


@pytest.mark.parametrize("functions", [(Sum, SumWithTimers), (SumWithTimers, Sum)])
def test_a_checkpoint_of_another_number_of_sources_is_refused(
    jobs: Jobs, functions: tuple[type[Sum], type[Sum]]
) -> None:
    before, after = functions
    jobs.source.add({"k": "a", "t": 1})
    jobs.start(before(), "job").cancel()
    with pytest.raises(RestoreMismatchError, match="stop_with_savepoint"):
        jobs.start(after(), "job")
    jobs.start(before(), "job").cancel()


@pytest.mark.slow
def test_a_batch_of_the_marker_alone_may_miss_an_operator(
    env: StreamExecutionEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    """In a query of the user, whose function runs no action in such a batch: it has no records."""
    source = feed("k STRING, t LONG")
    source.add({"k": "a", "t": 1})
    stream = env.from_dataframe(source.dataframe()).map(reading, READING)
    frame = keyed(stream).process(SumWithTimers(), READING).uid("sums").to_dataframe()
    rows: list[Any] = []

    def write(batch: Any, batch_id: int) -> None:
        if batch_id != 1:
            rows.extend(tuple(row.value) for row in batch.collect())

    location = tmp_path / "checkpoint"
    writer = frame.writeStream.option("checkpointLocation", str(location)).foreachBatch(write)
    for run in range(3):
        if run == 2:
            source.add({"k": "a", "t": 10})
        writer.trigger(availableNow=True).start().awaitTermination()
    assert len(markers(location)) == 3
    assert rows == [("a", 1), ("a", 11)]
