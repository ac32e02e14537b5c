"""Timers and time to live over restarts, savepoints, rescaling, and kills before a commit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.killed_programs import temporary_files_in
from tests.spark.restarts.fired_functions import FIRED, ROWS, Fires, Remembers
from tests.waiting import until

from queryable_state.client import PlacementError, RetryLaterError, UnknownJobError
from queryable_state.streaming import Types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from tests.spark.conftest import Connect, MakeFeed, NewEnvironment
    from tests.spark.feed import Feed

    from queryable_state.client.blocking import QueryableStateClient
    from queryable_state.streaming import JobClient, StreamExecutionEnvironment
    from queryable_state.streaming.functions import KeyedProcessFunction

PROGRAM = Path(__file__).with_name("fired_program.py")
KEYS = [f"k{number}" for number in range(20)]
HOUR_MS = 3_600_000


def at(second: int, key: str) -> dict[str, Any]:
    return {"k": key, "ts": f"2026-01-01T00:00:{second:02}Z"}


def fired_by(
    env: StreamExecutionEnvironment, source: Feed, function: KeyedProcessFunction
) -> list[Any]:
    """Declares the job; returns the list that its sink fills."""
    rows: list[Any] = []
    frame = source.dataframe().withWatermark("ts", "0 seconds")
    stream = env.from_dataframe(frame).key_by("k").process(function, FIRED).uid("timed")
    stream.add_sink(lambda batch, _: rows.extend(tuple(row) for row in batch.collect()))
    return rows


def fires(client: QueryableStateClient, job: JobClient, keys: list[str]) -> list[int | None]:
    states = client.get_kv_states(job.job_id, "fires", keys)
    return [None if state is None else state.value() for state in states]


@pytest.mark.slow
@pytest.mark.parametrize("backend", [pytest.param("heap", marks=pytest.mark.wide), "rocksdb"])
def test_timers_that_fell_due_while_a_job_was_down_fire_in_order_at_its_start(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path, backend: str
) -> None:
    """Before the rows that came meanwhile, and none before its time."""
    source = feed(ROWS)
    waits = (2_000, 1_000, 3_000, 600_000)
    location = str(tmp_path / "checkpoint")
    env = new_environment(backend=backend).set_parallelism(1)
    source.add(*(at(0, key) for key in KEYS))
    rows = fired_by(env, source, Fires(*waits))
    job = env.execute_async("down", checkpoint_location=location)
    until(lambda: (tmp_path / "checkpoint" / "commits" / "0").exists())
    job.cancel()
    first = len(rows)
    time.sleep(4)
    env = new_environment(backend=backend).set_parallelism(1)
    again = fired_by(env, source, Fires(*waits))
    job = env.execute_async("down", checkpoint_location=location)
    until(lambda: len(rows) + len(again) >= 3 * len(KEYS))
    time.sleep(1)
    rows += again
    assert first < 3 * len(KEYS)
    assert len(rows) == 3 * len(KEYS)
    began = rows[0][1] - 1_000
    assert [at for _, at, _ in rows] == sorted(began + wait for wait in waits[:3] for _ in KEYS)
    assert all(seen == number // len(KEYS) + 1 for number, (_, _, seen) in enumerate(rows))


@pytest.mark.slow
def test_timers_and_time_to_live_go_with_a_savepoint_to_another_backend_parallelism_and_type(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path, connect: Connect
) -> None:
    """What has expired meanwhile is gone when the first timers fire; the rest lives no longer."""
    source = feed(ROWS)
    short_ms = 4_000
    source.add(*(at(0, key) for key in KEYS))
    env = new_environment(backend="heap").set_parallelism(2)
    before = fired_by(env, source, Remembers(short_ms, Types.INT()))
    job = env.execute_async("one", checkpoint_location=str(tmp_path / "one"))
    job.process_all_available()
    began = time.time()
    state = connect(job).get_kv_state(job.job_id, "long", KEYS[0])
    remaining_ms = state.remaining_ms
    assert remaining_ms is not None
    assert 0 < remaining_ms <= HOUR_MS
    uri = job.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    until(lambda: time.time() > began + short_ms / 1_000 + 1)
    source.add(at(30, "late"))
    env = new_environment(backend="rocksdb").set_parallelism(3)
    rows = fired_by(env, source, Remembers(short_ms, Types.LONG()))
    job = env.execute_async("two", checkpoint_location=str(tmp_path / "two"), savepoint=uri)
    until(lambda: len(before) + len(rows) >= 2 * len(KEYS))
    waited_ms = (time.time() - began) * 1_000
    client = connect(job)
    state = client.get_kv_state(job.job_id, "long", KEYS[0])
    assert state.remaining_ms is not None
    assert state.remaining_ms <= remaining_ms - waited_ms + 1_000
    short = client.get_kv_states(job.job_id, "short", [KEYS[0]])
    assert short == [None]
    # On a busy machine the job was stopped after the first timers, and the late one is due, too.
    fired = [(name, seen) for name, _, seen in [*before, *rows] if not name.startswith("late")]
    assert sorted(fired) == sorted(
        (f"{key} {clock}", 10) for key in KEYS for clock in ("PROCESSING_TIME", "EVENT_TIME")
    )
    # The sink has the rows before their batch is committed.
    until(lambda: not len(client.get_timers(job.job_id, "timed.timers", KEYS[0])))
    pending = client.get_timers(job.job_id, "timed.timers", "late")
    assert pending[-1].clock.name == "EVENT_TIME"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("moment", "backend"),
    [
        ("before", "rocksdb"),
        ("after", "heap"),
        pytest.param("before", "heap", marks=pytest.mark.wide),
        pytest.param("after", "rocksdb", marks=pytest.mark.wide),
    ],
)
def test_a_timer_fires_once_although_its_server_is_killed_before_the_commit(
    new_environment: NewEnvironment,
    feed: MakeFeed,
    tmp_path: Path,
    connect: Connect,
    backend: str,
    moment: str,
) -> None:
    """Before the task of its batch, or after it has sealed."""
    source = feed(ROWS)
    env = new_environment(backend=backend).set_parallelism(2)
    killed: list[int] = []

    def kill() -> None:
        (told,) = tmp_path.glob("queryable-state-*/server.json")
        killed.append(json.loads(told.read_text())["pid"])
        os.kill(killed[-1], signal.SIGKILL)

    def write(batch: DataFrame, batch_id: int) -> None:
        # Batch 1 has no input, and batch 2 the row that moves the watermark, so timers fire in 3.
        if moment == "before" and batch_id == 3 and not killed:
            kill()
        if batch.collect() and not killed:
            kill()

    frame = source.dataframe().withWatermark("ts", "0 seconds")
    stream = env.from_dataframe(frame).key_by("k").process(Fires(), FIRED).uid("timed")
    stream.add_sink(write)
    source.add(*(at(0, key) for key in KEYS))
    job = env.execute_async("killed", checkpoint_location=str(tmp_path / "checkpoint"))
    job.process_all_available()
    assert fires(connect(job), job, KEYS) == [None] * len(KEYS)
    source.add(at(30, "last"))

    def all_fired() -> bool:
        job.raise_if_failed()
        try:
            return bool(killed) and fires(connect(job), job, KEYS) == [1] * len(KEYS)
        except (RetryLaterError, PlacementError, UnknownJobError):
            # On a busy machine the new server takes longer than a query waits; meanwhile the server
            # of another process's job may have the port of the killed one.
            return False

    until(all_fired, 120)
    source.add(at(31, "last"))
    job.process_all_available()
    assert fires(connect(job), job, [*KEYS, "last"]) in (
        [*([1] * len(KEYS)), None],
        [*([1] * len(KEYS)), 1],
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_timer_fires_once_although_its_driver_is_killed_before_the_commit(
    feed: MakeFeed, tmp_path: Path
) -> None:
    source = feed(ROWS)
    source.add(*(at(0, key) for key in KEYS))
    source.add(at(30, "last"))
    command = [sys.executable, str(PROGRAM), str(source._folder), str(tmp_path / "state")]
    environment = {**os.environ, **temporary_files_in(tmp_path / "tmp")}
    first, second = (program(command, environment) for _ in range(2))
    assert first.returncode == -signal.SIGKILL, first.stderr[-3_000:]
    assert second.returncode == 0, second.stderr[-3_000:]
    assert json.loads(second.stdout.splitlines()[-1]) == [1] * len(KEYS)


def program(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a program in a process group of its own, which it may kill."""
    return subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=290,
        check=False,
    )
