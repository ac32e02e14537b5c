"""A random job over its random restarts."""

from __future__ import annotations

import os
import signal
from random import Random
from typing import TYPE_CHECKING, Any

from tests.chaos.history.batch_log import Batch, BatchLog
from tests.chaos.site import newest_batch
from tests.spark.feed import Feed
from tests.spark.random_times.timed_job import TimedJob, schema
from tests.spark.random_times.timed_model import feed_rows, last_file, random_files, random_steps
from tests.spark.random_times.timed_shape import random_shape

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.spark.conftest import Connect, NewEnvironment

    from queryable_state.streaming import JobClient

FILES = 12
BACKENDS = ("heap", "rocksdb")


class RandomRun:
    """A job whose servers are killed, that is restarted, and that moves by savepoints."""

    def __init__(
        self,
        new_environment: NewEnvironment,
        connect: Connect,
        spark: SparkSession,
        folder: Path,
        seed: int,
    ) -> None:
        self.random = Random(seed)
        self.shape = random_shape(self.random)
        self.files = [
            *random_files(self.random, FILES, self.shape.keys),
            last_file(),
            last_file()[:0],
        ]
        self.source = Feed(spark, folder / "feed", schema(self.shape))
        self.timed = TimedJob(folder, self.source, random_steps(self.random), self.shape)
        self.fed = 0
        self.steps = self.random.choices(("restart", "savepoint", "kill"), weights=(2, 3, 2), k=2)
        self.names = ["run-0"]
        """Of the Spark checkpoints, one for each savepoint and one more."""
        self._new_environment = new_environment
        self._connect = connect
        self._backend = self.random.choice(BACKENDS)
        self.parallelism = 0

    def add(self, count: int) -> None:
        """Gives the job the next files."""
        for file in self.files[self.fed : self.fed + count]:
            self.source.add(*feed_rows(file, self.shape))
        self.fed += count

    def run(self) -> JobClient:
        """Returns the last run; every file is done, and all that is due has fired."""
        ends = sorted(self.random.sample(range(2, FILES - 1), len(self.steps)))
        self.add(1)
        job = self._start()
        for step, end in zip(self.steps, ends, strict=True):
            self._go_on(job, end)
            job = self._taken(step, job)
        self._go_on(job, len(self.files))
        return job

    def _start(self, savepoint: str | None = None) -> JobClient:
        env = self._new_environment(backend=self._backend)
        self.parallelism = self.random.choice((1, 2, 3))
        env.set_parallelism(self.parallelism)
        return self.timed.start(env, self.names[-1], savepoint)

    def _taken(self, step: str, job: JobClient) -> JobClient:
        """The job after a step of its history."""
        if step == "kill":
            held = [each for each in self._connect(job).list_servers() if each.lease == "HELD"]
            os.kill(self.random.choice(held).pid, signal.SIGKILL)
            return job
        if step == "restart":
            job.cancel()
            self.add(1)
            return self._start()
        uri = job.stop_with_savepoint(False, str(self.timed.folder / "savepoints")).result()
        self._backend = self.random.choice(BACKENDS)
        self.names.append(f"run-{len(self.names)}")
        return self._start(uri)

    def _go_on(self, job: JobClient, until_file: int) -> None:
        while self.fed < until_file:
            self.add(min(self.random.randint(1, 3), until_file - self.fed))
            job.process_all_available()

    def batches(self) -> list[tuple[str, int, Batch]]:
        """All committed batches of all checkpoints: folder, number, and what is logged of it."""
        found: list[tuple[str, int, Batch]] = []
        for name in self.names:
            location = self.timed.folder / name
            log = BatchLog(location)
            numbers = range(len(found), newest_batch(location / "commits") + 1)
            found += [(name, number, log(number)) for number in numbers]
        return found

    def outputs(
        self, name: str, number: int, plain_late: Callable[[list[Any]], list[Any]]
    ) -> dict[str, list[Any]]:
        """What the streams of the job put out in a batch."""
        found = {
            stream: rows.get((name, number), []) for stream, rows in self.timed.emitted.items()
        }
        return found | {"late": plain_late(found["late"])}

    def __str__(self) -> str:
        return f"{self.shape}, {self.steps}"
