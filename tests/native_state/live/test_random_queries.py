"""Random queries: what is served equals what Spark's own reader has, or is refused by name."""

from __future__ import annotations

import asyncio
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from tests.native_state.answers.expected_records import answer_name, expected_records
from tests.native_state.programs.answers import Answers, rows_of
from tests.native_state.programs.written_query import WrittenQuery, settings
from tests.native_state.random_queries.checked_answers import (
    CheckedState,
    keys_by_state,
    without_partitions,
)
from tests.native_state.random_queries.damages import damage
from tests.native_state.random_queries.random_query import RandomQuery, withdraw
from tests.native_state.server.conftest import until_batch

from queryable_state.client.blocking import QueryableStateClient
from queryable_state.server.native_state.server.native_server import NativeServer
from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings
from queryable_state.wire.addresses import host_and_port
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.native_state.answers.records import Record

    from queryable_state.server.native_state.operators.state_layout import StateDefinition

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

REFUSED_BY_SPARK = ("UNSUPPORTED_TIME_TYPE", "IncompatibleSchemaException")


class RandomRun:
    """Runs a random query on Spark, and compares what servers of its checkpoint say."""

    def __init__(self, spark: SparkSession, folder: Path, seed: int) -> None:
        self.drawn = RandomQuery(seed)
        self.folder = folder
        self.problems: list[str] = []
        self.refusals: list[str] = []
        """Of states that are not served, and of questions."""
        self.query = WrittenQuery(
            spark,
            folder,
            inputs=self.drawn.inputs,
            plan=self.drawn.operator.plan,
            output_mode=self.drawn.operator.output_mode,
            once=self.drawn.operator.once,
        )
        about = {"settings": self.drawn.settings}
        (folder / "query.json").write_text(json.dumps(about))
        self._answers = Answers(spark, folder)
        self._gone: dict[str, list[Any]] = {}

    def run(self) -> Iterator[int]:
        """Runs the query batch by batch; yields the newest committed batch after each."""
        runs = iter(self.drawn.runs)
        spark, query = self.query.spark, self.query
        with settings(spark, self.drawn.settings | next(runs)):
            for step, rows in zip(["", *self.drawn.steps], self.drawn.batches(), strict=True):
                if step == "fail":
                    query.fail(partition=None, **rows)
                elif step:
                    query.stop()
                if step == "withdraw":
                    withdraw(query)
                if step in ("stop", "fail"):
                    for key, value in next(runs).items():
                        spark.conf.set(key, value)
                query.feed(**({} if step == "fail" else rows))
                yield self.newest
            query.stop()

    @property
    def newest(self) -> int:
        """The newest committed batch."""
        return self._answers.batches()[-1]

    def expected(self, states: list[StateDefinition], batch: int) -> dict[str, list[Record]]:
        """What Spark's reader has of states as of a batch."""
        time_ms = self._answers.batch_time_ms(batch)
        # The reader takes formats from its session.
        with settings(self.query.spark, self.drawn.settings | self.drawn.runs[0]):
            readings = dict(self._answers.readings())
            return {
                state.queryable_name: without_partitions(
                    expected_records(
                        rows_of(self._answers.frame(readings[answer_name(state)], batch)),
                        state,
                        time_ms,
                    )
                )
                for state in states
            }

    def check(
        self, server: NativeServer, known: dict[int, dict[str, list[Record]]] | None = None
    ) -> None:
        """Compares all states; `known`: the records by batch, if Spark's reader cannot be asked."""
        states = states_of(server)
        self.refusals += [str(each) for each in server.served.states.refusals]
        batch = server.served.facts.batch
        if known is None:
            records = self.expected(states, batch)
        elif batch in known:
            records = known[batch]
        else:
            self.problems.append(f"answers of batch {batch}, not of {sorted(known)}")
            return
        with QueryableStateClient(*host_and_port(server.address), timeout_s=60) as client:
            for state in states:
                name = state.queryable_name
                checked = CheckedState(
                    client, state, records[name], self.drawn.random, self.refusals
                )
                found = checked.problems(self._gone.get(name, ()))
                self.problems += [f"batch {batch}: {each}" for each in found]
        self._gone = keys_by_state(records)


def states_of(server: NativeServer) -> list[StateDefinition]:
    """The states that a server has."""
    return [
        layout.definition
        for operator in server.served.states.operators
        for layout in operator.layouts.values()
    ]


def serving(run: RandomRun, **options: Any) -> NativeServer:
    """A server of the run's checkpoint."""
    directory = run.folder / "served"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    return NativeServer(
        CheckpointServerSettings(
            spark_checkpoint=str(run.query.checkpoint),
            name="query",
            directory=str(directory),
            ports="0",
            frame_ports="0",
            web="off",
            **options,
        )
    )


async def _run(run: RandomRun) -> dict[int, dict[str, list[Record]]]:
    """Runs the query to its end, and returns what Spark has of its last two batches."""
    running = run.run()
    await asyncio.to_thread(next, running)
    if run.drawn.follows:
        async with serving(run, follow=True, lazy=run.drawn.lazy) as server:
            while (newest := await asyncio.to_thread(next, running, None)) is not None:
                await until_batch(server, newest)
                if run.drawn.random.random() < 0.5:
                    await asyncio.to_thread(run.check, server)
            await until_batch(server, run.newest)
            await asyncio.to_thread(run.check, server)
    for _ in running:
        pass
    async with serving(run, lazy=run.drawn.lazy) as server:
        await asyncio.to_thread(run.check, server)
        assert server.served.facts.batch == run.newest
        states = states_of(server)
    batches = range(max(run.newest - 1, 0), run.newest + 1)
    return {batch: await asyncio.to_thread(run.expected, states, batch) for batch in batches}


async def _damaged(run: RandomRun, known: dict[int, dict[str, list[Record]]]) -> tuple[str, str]:
    """Damages files, and compares what is served then with what Spark had before.

    Returns what was done, and what came of it.
    """
    done = damage(
        run.drawn.random,
        run.query.checkpoint,
        file_checksums=run.drawn.file_checksums,
        places_checked=run.drawn.places_checked,
    )
    refusals: list[str] = []
    run.refusals, before = refusals, run.refusals
    try:
        async with serving(run, lazy=run.drawn.lazy) as server:
            await asyncio.to_thread(run.check, server, known)
    except QueryableStateError as refusal:
        refusals.append(f"{type(refusal).__name__}: {refusal.message}")
    run.refusals = before
    run.problems = [f"{done}: {each}" for each in run.problems]
    if not done:
        return "", ""
    return f"{done}: {'; '.join(refusals[:1])}", "refused by name" if refusals else "exact"


async def test_a_random_query_is_served_as_spark_reads_it(
    program_seed: int,
    spark: SparkSession,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """By key, range, prefix, window and page, while it runs and after; then with damaged files."""
    run = RandomRun(spark, tmp_path, program_seed)
    record_property("program", str(run.drawn))
    try:
        known = await _run(run)
    except (AnalysisException, StreamingQueryException) as refusal:
        if not any(text in str(refusal) for text in REFUSED_BY_SPARK):
            raise
        pytest.skip(f"{run.drawn}: Spark cannot run it")
    assert not run.problems, f"{run.drawn}\n" + "\n".join(run.problems[:40])
    done, says = await _damaged(run, known)
    record_property("damage", done)
    record_property("damaged", says)
    assert not run.problems, f"{run.drawn}\n" + "\n".join(run.problems[:40])
    record_property("outcome", "refused by name" if run.refusals else "exact")
    record_property("refusals", "; ".join(run.refusals))
