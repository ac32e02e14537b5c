"""A Spark job in this process whose every answer is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark import cloudpickle
from tests.chaos.checks.asking import Asking
from tests.chaos.checks.checker import check_reads
from tests.chaos.checks.reads import Mode, What
from tests.chaos.history.batch_log import BatchLog
from tests.chaos.history.history import History
from tests.chaos.jobs import functions
from tests.chaos.jobs.workload import JOB_NAME, SCHEMA, Feed
from tests.chaos.site import commit_times, newest_batch

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.chaos.checks.reads import Read

    from queryable_state.streaming import JobClient, StreamExecutionEnvironment

# Executors have not the tests on their path.
cloudpickle.register_pickle_by_value(functions)  # type: ignore[no-untyped-call]


class KnownSparkJob:
    """The job of the chaos rounds, and what was answered while it ran.

    It is durable in a folder: started again, on any session, it goes on.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.seed = seed
        self.reads: list[Read] = []
        self._folder = folder
        self._feed = Feed(folder / "input", seed)

    @property
    def job(self) -> JobClient:
        """The run that was started last."""
        return self._job

    @property
    def committed(self) -> int:
        """The newest batch Spark has committed."""
        return newest_batch(self._commits)

    @property
    def _commits(self) -> Path:
        return self._folder / "query" / "commits"

    def start(self, env: StreamExecutionEnvironment, spark: SparkSession) -> None:
        """Starts the job, or starts it again; returns once it has done what there is to do."""
        rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        frame = functions.watermarked(rows.json(str(self._feed.folder)))
        ledger = functions.build_ledger(env.from_dataframe(frame))
        functions.build_sums(ledger)
        functions.build_windows(ledger)
        location = str(self._folder / "query")
        self._job = env.execute_async(JOB_NAME, checkpoint_location=location)
        self._job.process_all_available()

    def run(self, batches: int) -> None:
        """Has the next batches done."""
        for _ in range(batches):
            self._feed.add()
        self._job.process_all_available()

    def asking(self) -> Asking:
        """Clients that ask while the `with` lasts; `keep` what they were told."""
        return Asking(
            self.seed + len(self.reads), self._job.proxy_addresses, lambda: self.committed
        )

    def keep(self, asking: Asking) -> None:
        """Takes what was answered for what is judged."""
        self.reads += asking.reads

    def history(self) -> History:
        """What the batches planned so far make of the state."""
        return History(self.seed, BatchLog(self._folder / "query"))

    def judge(self) -> None:
        """Fails with what is wrong, and when too little was asked to tell."""
        newest = newest_batch(self._folder / "query" / "offsets")
        times = commit_times(self._commits)
        violations = check_reads(self.history(), self.reads, times, newest)
        assert not violations, "\n".join([f"seed {self.seed}", *map(str, violations[:10])])
        answered = [read for read in self.reads if not read.refused]
        assert {read.what for read in answered} == set(What)
        assert {read.mode for read in answered} == set(Mode)
        assert any(read.cut for read in answered)
