"""Random Spark jobs equal brute-force models, whatever their batches, restarts and kills."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from tests.native_state.answers.records import plain
from tests.spark.random_times.random_run import RandomRun
from tests.spark.random_times.timed_harnesses import TimedHarnesses
from tests.spark.random_times.timed_model import START_MS, TimedModel
from tests.spark.random_times.timed_shape import FOR_EVER_MS
from tests.waiting import until

from queryable_state.client import Clock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.spark.conftest import Connect, NewEnvironment

    from queryable_state.client.blocking import QueryableStateClient
    from queryable_state.streaming import JobClient


def plain_late(rows: list[Any]) -> list[Any]:
    """Late elements as the model has them."""
    return [(k, round(_utc(ts).timestamp() * 1_000), v) for k, ts, v, *_ in rows]


def _utc(ts: datetime) -> datetime:
    return ts if ts.tzinfo else ts.replace(tzinfo=UTC)


def by_key(rows: list[Any]) -> list[Any]:
    """Rows of each key in their order."""
    return sorted(rows, key=lambda row: str(row[0]))


def in_any_order(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {name: sorted(each, key=str) for name, each in rows.items()}


def check_states(
    client: QueryableStateClient, job: JobClient, run: RandomRun, model: TimedModel
) -> None:
    """What clients read at the end: pending timers, live windows, kept and broadcast states."""
    keys = run.shape.every_key
    pending = {
        (key, timer.clock == Clock.EVENT_TIME, timer.timestamp_ms)
        for key in keys
        for timer in client.get_timers(job.job_id, "scripted.timers", key)
    }
    assert pending == model.timers.pending()
    for name, live in (
        ("sums", model.tumbling.live_sums()),
        ("recent", model.sliding.live_sums()),
        ("visits", model.sessions.live_sums()),
    ):
        found = {
            (key, window.start, window.end): state.get()
            for key in keys
            for window, state in client.get_windows(job.job_id, name, key).items()
        }
        assert found == live, name
        with client.scan(job.job_id, name) as scan:
            scanned = {(key, at.start, at.end): _given(state).get() for (key, at), state in scan}
        assert scanned == live, name
    check_kept(client, job, run, model)
    for subtask in (0, -1):
        known = client.get_operator_state(job.job_id, "limits", subtask % run.parallelism).get()
        assert dict(known) == model.limits


def check_kept(
    client: QueryableStateClient, job: JobClient, run: RandomRun, model: TimedModel
) -> None:
    """The kept states of all keys, by look-ups and by scans; with a TTL they may be gone."""
    keys = {key: run.shape.typed_key(key) for key in run.shape.every_key}
    for name, read in READS.items():
        wanted = {key: model.kept.stored(name, key) for key in keys}
        states = client.get_kv_states(job.job_id, f"kept.{name}", list(keys.values()))
        found = {
            key: None if state is None else read(state)
            for key, state in zip(keys, states, strict=True)
        }
        with client.scan(job.job_id, f"kept.{name}") as scan:
            scanned = {repr(plain(key)): read(state) for key, state in scan}
        if run.shape.ttl_ms < FOR_EVER_MS:
            # The clock of queries goes on.
            continue
        assert found == wanted, name
        assert scanned == {
            repr(plain(keys[key])): value for key, value in wanted.items() if value is not None
        }, name


def _given(state: Any) -> Any:
    assert state is not None
    return state


READS: dict[str, Callable[[Any], Any]] = {
    "value": lambda state: state.value(),
    "reducing": lambda state: state.get(),
    "aggregating": lambda state: state.get(),
    "map": lambda state: dict(state.items()),
    "list": lambda state: list(state.get()),
}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_random_job_puts_out_what_the_models_do(
    new_environment: NewEnvironment,
    spark: SparkSession,
    tmp_path: Path,
    connect: Connect,
    program_seed: int,
    record_property: Callable[[str, object], None],
) -> None:
    """In each batch, over restarts, savepoints and kills; and so does its state at the end.

    Harnesses with the clocks of the batches put out the same.
    """
    run = RandomRun(new_environment, connect, spark, tmp_path, program_seed)
    record_property("program", f"seed {program_seed}: {run}")
    job = run.run()
    latest = START_MS + 3_600_000

    def is_over() -> bool:
        _, _, batch = run.batches()[-1]
        return (batch.watermark_ms or 0) > latest - 100

    until(is_over)
    shape = run.shape
    model = TimedModel(run.timed.steps, run.files, shape)
    harnesses = TimedHarnesses(run.timed.steps, shape)
    done = 0
    for name, number, batch in run.batches():
        wanted = model.run(batch)
        assert batch.watermark_ms == model.watermark
        found = run.outputs(name, number, plain_late)
        assert in_any_order(found) == in_any_order(wanted), (name, number, batch)
        for each in ("scripted", "kept"):
            assert by_key(found[each]) == by_key(wanted[each])
        same = harnesses.run(batch, model.elements(batch))
        same["late"] = plain_late(same["late"])
        assert in_any_order(same) == in_any_order({name: found[name] for name in same})
        done = batch.files.stop
    assert done == len(run.files)
    silent = [name for name, rows in run.timed.emitted.items() if not any(rows.values())]
    assert set(silent) <= {"late"}
    check_states(connect(job), job, run, model)
    record_property("outcome", "exact")
