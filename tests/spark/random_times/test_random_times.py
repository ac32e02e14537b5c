"""Timers and windows of Spark jobs equal brute-force models, whatever the batches and restarts."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.chaos.history.batch_log import Batch, BatchLog
from tests.chaos.site import newest_batch
from tests.spark.feed import Feed
from tests.spark.random_times.timed_harnesses import TimedHarnesses
from tests.spark.random_times.timed_job import KEYS, SCHEMA, TimedJob
from tests.spark.random_times.timed_model import (
    START_MS,
    TimedModel,
    feed_rows,
    last_file,
    random_files,
    random_steps,
)
from tests.waiting import until

from queryable_state.client import Clock

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.spark.conftest import Connect, NewEnvironment

    from queryable_state.client.blocking import QueryableStateClient
    from queryable_state.streaming import JobClient

FILES = 12


class RandomRun:
    """A random job, run with a restart, a savepoint and another parallelism and backend."""

    def __init__(
        self, new_environment: NewEnvironment, spark: SparkSession, folder: Path, seed: int
    ) -> None:
        self.random = Random(seed)
        self.files = [*random_files(self.random, FILES), last_file(), last_file()[:0]]
        self.source = Feed(spark, folder / "feed", SCHEMA)
        self.timed = TimedJob(folder, self.source, random_steps(self.random))
        self.fed = 0
        self._new_environment = new_environment

    def add(self, count: int) -> None:
        """Gives the job the next files."""
        for file in self.files[self.fed : self.fed + count]:
            self.source.add(*feed_rows(file))
        self.fed += count

    def run(self, backends: tuple[str, str]) -> JobClient:
        """Returns the last run; every file is done, and all that is due has fired."""
        first, second = sorted(self.random.sample(range(2, FILES - 1), 2))
        env = self._new_environment(backend=backends[0]).set_parallelism(2)
        self.add(1)
        job = self.timed.start(env, "first")
        self._go_on(job, first)
        job.cancel()
        self.add(1)
        env = self._new_environment(backend=backends[0]).set_parallelism(3)
        job = self.timed.start(env, "first")
        self._go_on(job, second)
        uri = job.stop_with_savepoint(False, str(self.timed.folder / "savepoints")).result()
        env = self._new_environment(backend=backends[1]).set_parallelism(self.random.choice([1, 3]))
        job = self.timed.start(env, "second", uri)
        self._go_on(job, len(self.files))
        return job

    def _go_on(self, job: JobClient, until_file: int) -> None:
        while self.fed < until_file:
            self.add(min(self.random.randint(1, 3), until_file - self.fed))
            job.process_all_available()

    def batches(self) -> list[tuple[str, int, Batch]]:
        """All committed batches of both checkpoints: folder, number, and what is logged of it."""
        found: list[tuple[str, int, Batch]] = []
        for name in ("first", "second"):
            location = self.timed.folder / name
            log = BatchLog(location)
            numbers = range(len(found), newest_batch(location / "commits") + 1)
            found += [(name, number, log(number)) for number in numbers]
        return found

    def outputs(self, name: str, number: int) -> dict[str, list[Any]]:
        """What the streams of the job put out in a batch."""
        found = {
            stream: rows.get((name, number), []) for stream, rows in self.timed.emitted.items()
        }
        return found | {"late": plain_late(found["late"])}


def plain_late(rows: list[Any]) -> list[Any]:
    """Late elements as the model has them."""
    return [(k, round(_utc(ts).timestamp() * 1_000), v) for k, ts, v, _ in rows]


def _utc(ts: datetime) -> datetime:
    return ts if ts.tzinfo else ts.replace(tzinfo=UTC)


def by_key(rows: list[Any]) -> list[Any]:
    """Rows of each key in their order."""
    return sorted(rows, key=lambda row: str(row[0]))


def in_any_order(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {name: sorted(each, key=str) for name, each in rows.items()}


def check_states(client: QueryableStateClient, job: JobClient, model: TimedModel) -> None:
    """The pending timers and live windows of all keys."""
    keys = [*KEYS, "last"]
    pending = {
        (key, timer.clock == Clock.EVENT_TIME, timer.timestamp_ms)
        for key in keys
        for timer in client.get_timers(job.job_id, "scripted.timers", key)
    }
    assert pending == model.timers.pending()
    live = {
        (key, window.start, window.end)
        for key in keys
        for window in client.get_windows(job.job_id, "sums", key)
    }
    assert live == model.tumbling.live()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("seed", "backends"),
    [
        (1, ("heap", "rocksdb")),
        (2, ("rocksdb", "heap")),
        pytest.param(3, ("rocksdb", "rocksdb"), marks=pytest.mark.wide),
        pytest.param(4, ("heap", "heap"), marks=pytest.mark.wide),
    ],
)
def test_a_random_job_puts_out_what_the_models_do(
    new_environment: NewEnvironment,
    spark: SparkSession,
    tmp_path: Path,
    connect: Connect,
    seed: int,
    backends: tuple[str, str],
) -> None:
    """In each batch, over a restart and a savepoint; and so does its state at the end.

    Harnesses with the clocks of the batches put out the same.
    """
    run = RandomRun(new_environment, spark, tmp_path, seed)
    job = run.run(backends)
    latest = START_MS + 3_600_000

    def is_over() -> bool:
        _, _, batch = run.batches()[-1]
        return (batch.watermark_ms or 0) > latest - 100

    until(is_over)
    model, harnesses = TimedModel(run.timed.steps, run.files), TimedHarnesses(run.timed.steps)
    done = 0
    for name, number, batch in run.batches():
        wanted = model.run(batch)
        assert batch.watermark_ms == model.watermark
        found = run.outputs(name, number)
        assert in_any_order(found) == in_any_order(wanted), (name, number, batch)
        assert by_key(found["scripted"]) == by_key(wanted["scripted"])
        same = harnesses.run(batch, model.elements(batch))
        same["late"] = plain_late(same["late"])
        assert in_any_order(same) == in_any_order({name: found[name] for name in same})
        done = batch.files.stop
    assert done == len(run.files)
    assert [name for name, rows in run.timed.emitted.items() if not any(rows.values())] == []
    check_states(connect(job), job, model)
