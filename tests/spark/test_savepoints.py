"""Savepoints: a job stopped or copied as of one batch, and another one that begins behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.functions import COUNTS, READINGS, CountPerKey

from queryable_state.streaming import StreamExecutionEnvironment

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.spark.conftest import Connect, MakeFeed
    from tests.spark.feed import Feed

    from queryable_state.streaming import JobClient

KEYS = [f"sensor-{number}" for number in range(40)]


def readings(keys: Iterable[str] = KEYS) -> list[dict[str, object]]:
    return [{"sensor": key, "temperature": 1.0} for key in keys]


def count_job(
    env: StreamExecutionEnvironment, source: Feed, name: str, folder: Path, **options: Any
) -> JobClient:
    keyed = env.from_dataframe(source.dataframe()).key_by("sensor")
    keyed.process(CountPerKey(), COUNTS).uid("counts")
    return env.execute_async(name, checkpoint_location=str(folder / name), **options)


def counts(connect: Connect, job: JobClient) -> dict[str, int | None]:
    states = connect(job).get_kv_states(job.job_id, "count", KEYS)
    return {
        key: None if state is None else state.value()
        for key, state in zip(KEYS, states, strict=True)
    }


@pytest.mark.parametrize("parallelism", [3, 1])
def test_a_job_resumed_at_another_parallelism_has_every_key_and_no_record_twice(
    env: StreamExecutionEnvironment,
    feed: MakeFeed,
    connect: Connect,
    tmp_path: Path,
    parallelism: int,
) -> None:
    source = feed(READINGS)
    for _ in range(2):
        source.add(*readings())
    env.set_parallelism(2)
    first = count_job(env, source, "first", tmp_path)
    first.process_all_available()
    uri = first.trigger_savepoint(str(tmp_path / "savepoints"))
    source.add(*readings())
    first.process_all_available()
    assert set(counts(connect, first).values()) == {3}
    env.set_parallelism(parallelism)
    second = count_job(env, source, "second", tmp_path, savepoint=uri)
    assert second.job_id != first.job_id
    second.process_all_available()
    assert set(counts(connect, second).values()) == {3}
    source.add(*readings(KEYS[:5]))
    second.process_all_available()
    assert counts(connect, second) == dict.fromkeys(KEYS, 3) | dict.fromkeys(KEYS[:5], 4)
