"""One round: a job, a reader, faults, and the judgement."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from tests.chaos.checks.asker import Asker
from tests.chaos.checks.checker import DEFECTS, Kind, Violation, check_final, check_reads
from tests.chaos.checks.reader import addresses, ask_all, client_of
from tests.chaos.checks.reads import Mode, Read, read_file
from tests.chaos.checks.sink_output import check_output
from tests.chaos.clusters import HOST, Cluster, free_port
from tests.chaos.configuration import LEASE_MS, MARGIN_MS, RELAY_HOST, configuration
from tests.chaos.faults.relay import Relay
from tests.chaos.faults.storage_faults import checkpoints
from tests.chaos.faults.withdrawals import first_commits, withdrawals
from tests.chaos.history.history import History
from tests.chaos.jobs.driver import REPOSITORY, Driver
from tests.chaos.jobs.fired_windows import FOLDER, check_fired
from tests.chaos.jobs.sink_plans import WRONG_ROWS
from tests.chaos.jobs.workload import (
    JOB_NAME,
    KEY_STATES,
    STATES,
    TIMERS,
    WINDOW_SUMS,
    Feed,
)
from tests.chaos.plan import FAULTS
from tests.chaos.processes import StuckError, describe, executors_under, kill, under, until
from tests.chaos.result import RoundResult, StrikeResult, note_recoveries
from tests.chaos.site import Site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.chaos.plan import RoundPlan

# Longer than anything takes on a machine that has other things to do, too.
RECOVERY_S = 420.0
FIRST_COMMIT_S = 480.0
END_S = 420.0
GONE_S = 60.0
LAST_QUESTIONS = 200


class Round:
    """Runs a plan in a folder of its own, on a cluster that is there."""

    def __init__(
        self,
        plan: RoundPlan,
        folder: Path,
        cluster: Cluster,
        *,
        durable: bool = True,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        """`durable=False` keeps no copy of the state: faults must then be found out."""
        self._plan = plan
        self._folder = folder
        self._cluster = cluster
        self._durable = durable
        self._say = say
        self._states = (*(KEY_STATES if plan.file_sink else STATES), TIMERS)
        if plan.windowed:
            self._states = (*self._states, WINDOW_SUMS)
        self._feed = Feed(folder / "input", plan.seed)
        self._fed = threading.Event()
        self._began = time.time()

    def run(self) -> RoundResult:
        """Returns when the round is judged and nothing of it runs any more."""
        result = RoundResult(plan=self._plan, folder=self._folder)
        port = free_port()
        try:
            with Relay((RELAY_HOST, port), (HOST, port)) as relay:
                site = self._site(relay, port)
                with self._feeding(site), self._reading(site):
                    try:
                        self._strike_all(site, result)
                        self._finish(site, result)
                    except StuckError as stuck:
                        result.violations.append(Violation(Kind.STUCK, str(stuck)))
                    finally:
                        site.driver.stop()
                result.driver_starts = site.driver.starts
                result.driver_failures = site.driver.failures
                self._judge(site, result)
        finally:
            result.violations += self._see_off()
        result.seconds = time.time() - self._began
        return result

    def _site(self, relay: Relay, port: int) -> Site:
        plan, state = self._plan, self._folder / "state"
        # With a sink the query is started by hand, and its root stands beside its checkpoint.
        spark = state / "query" if plan.file_sink else state / JOB_NAME / "spark"
        root = state / "query.queryable-state" if plan.file_sink else state / JOB_NAME
        output = self._folder / "output" if plan.file_sink else None
        arguments = ["--master", self._cluster.master, "--folder", str(self._folder)]
        arguments += ["--spark", str(spark)]
        for name, value in configuration(plan, self._folder, port, durable=self._durable).items():
            arguments += ["--conf", f"{name}={value}"]
        if plan.file_sink or not self._durable:
            arguments += ["--checkpoint-location", str(spark)]
        if output is not None:
            arguments += ["--output", str(output), "--plan", plan.sink_plan]
        if plan.random_actions:
            arguments += ["--actions", str(plan.seed)]
        if plan.windowed:
            arguments += ["--windowed"]
        driver = Driver(self._folder, self._cluster, arguments)
        return Site(
            folder=self._folder,
            cluster=self._cluster,
            driver=driver,
            relay=relay,
            chance=random.Random(f"strikes-{plan.seed}"),
            spark=spark,
            root=root,
            coordinator=f"{HOST}:{port}",
            lease_s=(LEASE_MS + MARGIN_MS) / 1000,
            output=output,
            watch=driver.keep_running,
        )

    @contextlib.contextmanager
    def _feeding(self, site: Site) -> Iterator[None]:
        """Has the next batch there as soon as the job has planned one, until `_fed` is set.

        Not before: a driver that dies between the source's log of a file and the offsets would
        put that file and those that wait into one batch, in any order.
        """

        def feed() -> None:
            while not self._fed.wait(0.02):
                ends = site.input_ends
                if self._feed.files <= site.planned_files() and self._feed.files != ends:
                    self._feed.add()

        thread = threading.Thread(target=feed, name="chaos feed", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._fed.set()
            thread.join()

    @contextlib.contextmanager
    def _reading(self, site: Site) -> Iterator[None]:
        """Runs the reader."""
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        if "PYTHONPATH" in os.environ:
            environment["PYTHONPATH"] += os.pathsep + os.environ["PYTHONPATH"]
        arguments = ["--servers", str(self._folder / "servers"), "--out", str(self._reads)]
        arguments += ["--states", ",".join(self._states), "--commits", str(site.spark / "commits")]
        with (self._folder / "reader.log").open("wb") as log:
            reader = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.checks.reader", *arguments],
                cwd=self._folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        try:
            yield
        finally:
            ended = reader.poll()
            assert reader.stdin is not None
            reader.stdin.close()
            reader.wait(20)
            if ended is not None or reader.returncode:
                raise RuntimeError(f"the reader has ended by itself: see {self._folder}/reader.log")

    @property
    def _reads(self) -> Path:
        return self._folder / "reads"

    def _strike_all(self, site: Site, result: RoundResult) -> None:
        site.driver.start()
        started = time.time()
        site.wait(lambda: site.committed() >= 1, FIRST_COMMIT_S, "the first batches")
        result.first_commit_s = time.time() - started
        for strike in self._plan.strikes:
            time.sleep(strike.after_s)
            before, began = site.committed(), time.time()
            what = FAULTS[strike.fault](site)
            done = StrikeResult(
                fault=strike.fault, what=what, began=began, ended=time.time(), batch=before
            )
            result.strikes.append(done)
            self._say(f"  {began - self._began:5.1f} s  {strike.fault}: {what}")
            if strike.waits:
                site.wait_commits(2, RECOVERY_S)

    def _finish(self, site: Site, result: RoundResult) -> None:
        """Lets the job end its input, and asks everything once more."""
        site.wait_commits(2, RECOVERY_S)
        self._fed.set()
        # The feeder may be about to add one.
        time.sleep(0.1)

        def is_done() -> bool:
            """Whether all files are in, and no timer of processing time is left."""
            newest = site.committed()
            files = site.batches()(newest).files.stop
            return files == self._feed.files and not self._history(site).ticks_pending(newest)

        site.wait(is_done, END_S, f"file {self._feed.files - 1}, the last one, is not committed")
        result.violations += self._check_end(site)

    def _check_end(self, site: Site) -> list[Violation]:
        """What is wrong with answers after the last batch, of every key and of every kind.

        Batches without input may still come: then all is asked again, as it is where some are
        refused.
        """
        ends_at_s = time.monotonic() + RECOVERY_S
        while True:
            site.watch()
            for address in addresses(site.servers_folder):
                newest = site.committed()
                reads = asyncio.run(_ask_once(address, self._states))
                # A server is told of a commit some milliseconds after Spark has made it.
                behind = any(r.version is not None and r.version < newest for r in reads)
                moved = site.planned() > newest
                refused = {read.error for read in reads if read.refused}
                is_last = time.monotonic() > ends_at_s
                if is_last or refused & DEFECTS or not (behind or refused or moved):
                    return check_final(self._history(site), reads, newest)

    def _history(self, site: Site) -> History:
        return History(self._plan.seed, site.batches())

    def _judge(self, site: Site, result: RoundResult) -> None:
        reads = list(read_file(self._reads)) if self._reads.exists() else []
        result.violations += site.violations
        withdrawn = withdrawals(site.losses, site.committed_at())
        committed_at = first_commits(site.losses, site.committed_at())
        history, newest = self._history(site), site.planned()
        result.violations += check_reads(history, reads, committed_at, newest, withdrawn=withdrawn)
        wrong_watermarks = history.wrong_watermarks(newest)
        result.violations += (Violation(Kind.WATERMARK, each) for each in wrong_watermarks)
        note_recoveries(result.strikes, reads, committed_at)
        result.batches = newest + 1
        result.refusals = sum(read.refused for read in reads)
        result.answers = len(reads) - result.refusals
        result.checkpoints = max((number for number, _ in checkpoints(site.root)), default=0)
        if site.output is not None and site.output.exists():
            result.violations += check_output(site.output, self._plan.seed, self._feed.files)
        if self._plan.windowed:
            result.violations += check_fired(self._folder / FOLDER, history, site.committed())
        wrong = self._folder / WRONG_ROWS
        if wrong.exists():
            lines = wrong.read_text().splitlines()
            result.violations += (Violation(Kind.OUTPUT, line) for line in lines)

    def _see_off(self) -> list[Violation]:
        """What still runs of the round, after a while; it is killed."""

        def left() -> list[str]:
            running = under(self._folder) + executors_under(self._cluster.folder)
            return [describe(process) for process in running]

        try:
            until(lambda: not left(), GONE_S, "processes of the round still run")
        except StuckError:
            found = [Violation(Kind.LEFT_OVER, process) for process in left()]
            for process in under(self._folder) + executors_under(self._cluster.folder):
                kill(process.pid)
            return found
        return []


async def _ask_once(address: str, states: tuple[str, ...]) -> list[Read]:
    async with client_of(address) as client:
        asker = Asker(client, states, random.Random(), modes=[Mode.COMMITTED])
        reads = await ask_all(asker, states)
        for _ in range(LAST_QUESTIONS):
            reads += await asker.ask()
        return reads
