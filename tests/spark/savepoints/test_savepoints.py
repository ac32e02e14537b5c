"""Savepoints: the state of a job at one batch, and a second job resumed from it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from tests.spark.counting_jobs import KEYS, Jobs, readings
from tests.spark.functions import COUNTS, CountPerKey

from queryable_state.client import Consistency, VersionGoneError
from queryable_state.streaming import JobStatus, MemoryStateBackend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from tests.spark.conftest import NewEnvironment


@pytest.fixture
def often_compacted(spark: SparkSession) -> Iterator[None]:
    """Every second batch the log of a file source is compacted, and what was before is removed."""
    conf = {"compactInterval": "2", "cleanupDelay": "0"}
    for name, value in conf.items():
        spark.conf.set(f"spark.sql.streaming.fileSource.log.{name}", value)
    yield
    for name in conf:
        spark.conf.unset(f"spark.sql.streaming.fileSource.log.{name}")


@pytest.fixture
def cores(spark: SparkSession) -> Iterator[int]:
    """Nobody has set `spark.sql.shuffle.partitions`; yields the cores of the application."""
    key = "spark.sql.shuffle.partitions"
    given = str(spark.conf.get(key))
    spark.conf.unset(key)
    yield spark.sparkContext.defaultParallelism
    spark.conf.set(key, given)


@pytest.mark.parametrize(
    ("parallelism", "backends"),
    [(3, ("heap", "rocksdb")), pytest.param(1, ("rocksdb", "heap"), marks=pytest.mark.slow)],
)
def test_a_savepoint_of_a_running_job_is_resumed_at_another_parallelism_and_backend(
    jobs: Jobs, often_compacted: None, parallelism: int, backends: tuple[str, str]
) -> None:
    """Every key is right, and no record counts twice: batches go on while it is written."""
    for _ in range(3):
        jobs.source.add(*readings())
    jobs.env.set_parallelism(2).set_state_backend(backends[0])
    first = jobs.counting("first")
    first.process_all_available()
    uris: list[str] = []
    writing = threading.Thread(target=lambda: uris.append(jobs.savepoint(first)))
    writing.start()
    for _ in range(3):
        jobs.source.add(*readings())
    writing.join()
    first.process_all_available()
    assert jobs.values(first) == {6: len(KEYS)}
    jobs.env.set_parallelism(parallelism).set_state_backend(backends[1])
    second = jobs.counting("second", savepoint=uris[0])
    assert second.job_id != first.job_id
    second.process_all_available()
    assert jobs.values(second) == {6: len(KEYS)}
    jobs.source.add(*readings(KEYS[:5]))
    second.process_all_available()
    assert jobs.values(second) == {6: len(KEYS) - 5, 7: 5}
    first.process_all_available()
    assert jobs.values(first) == {6: len(KEYS) - 5, 7: 5}, "it runs on beside the second"
    seen = jobs.connect(first).get_kv_state(first.job_id, "count", KEYS[0]).info
    with pytest.raises(VersionGoneError, match=f"began from {uris[0]}"):
        jobs.connect(second).get_kv_state(
            second.job_id, "count", KEYS[0], consistency=Consistency.at_least(seen)
        )


def test_state_keeps_its_parallelism_unless_one_is_set(jobs: Jobs, cores: int) -> None:
    """From its own checkpoint and from a savepoint; the cores are for state that is new."""
    jobs.source.add(*readings())

    def subtasks(name: str, count: int, **options: str) -> int:
        job = jobs.counting(name, **options)
        job.process_all_available()
        assert jobs.values(job) == {count: len(KEYS)}
        (operator,) = jobs.connect(job).describe_job(job.job_id).operators
        savepoints.append(jobs.savepoint(job, stop=True))
        return operator.parallelism

    savepoints: list[str] = []
    assert subtasks("new", 1) == cores == 2
    jobs.env.set_parallelism(5)
    assert subtasks("set", 1) == 5
    jobs.env.set_parallelism(-1)
    assert subtasks("set", 1) == 5
    jobs.source.add(*readings())
    assert subtasks("set", 2) == 5
    assert subtasks("from savepoint", 2, savepoint=savepoints[1]) == 5
    jobs.env.set_parallelism(3)
    assert subtasks("set", 2) == 3
    jobs.env.set_state_backend(MemoryStateBackend())
    assert subtasks("in the driver", 2) == 3
    jobs.env.set_parallelism(-1)
    assert subtasks("in the driver", 2) == 3


def test_nothing_is_processed_behind_the_savepoint_a_job_is_stopped_with(jobs: Jobs) -> None:
    """And the program with the savepoint in it goes on from its own checkpoint afterwards."""
    jobs.source.add(*readings())
    first = jobs.counting("first")
    first.process_all_available()
    uri = jobs.savepoint(first, stop=True)
    assert first.status() is JobStatus.FINISHED
    jobs.source.add(*readings())
    ids, values = [], []
    for _ in range(2):
        job = jobs.counting("second", savepoint=uri)
        jobs.source.add(*readings())
        job.process_all_available()
        ids.append(job.job_id)
        values.append(jobs.values(job))
        job.cancel()
    assert len({first.job_id, *ids}) == 2
    assert values == [{3: len(KEYS)}, {4: len(KEYS)}]


@pytest.mark.slow
def test_a_job_from_a_savepoint_goes_on_in_another_driver(
    jobs: Jobs, new_environment: NewEnvironment
) -> None:
    """Before its first checkpoint: from the savepoint and the changelogs behind it."""
    jobs.env = new_environment()
    jobs.source.add(*readings())
    first = jobs.counting("first")
    first.process_all_available()
    uri = jobs.savepoint(first, stop=True)
    jobs.source.add(*readings())
    second = jobs.counting("second", savepoint=uri)
    second.process_all_available()
    jobs.source.add(*readings(KEYS[:5]))
    second.process_all_available()
    jobs.env = new_environment()
    again = jobs.counting("second", savepoint=uri)
    assert again.job_id == second.job_id
    jobs.source.add(*readings())
    again.process_all_available()
    assert jobs.values(again) == {3: len(KEYS) - 5, 4: 5}
    third = jobs.counting("third", savepoint=jobs.savepoint(again, stop=True))
    jobs.source.add(*readings())
    third.process_all_available()
    assert jobs.values(third) == {4: len(KEYS) - 5, 5: 5}


def test_a_job_that_keeps_nothing_can_be_stopped_with_a_savepoint(jobs: Jobs) -> None:
    jobs.source.add(*readings())
    keyed = jobs.env.from_dataframe(jobs.source.dataframe()).key_by("sensor")
    keyed.process(CountPerKey(), COUNTS).uid("counts")
    first = jobs.env.execute_async("fleeting")
    first.process_all_available()
    assert first.state_root == ""
    uri = jobs.savepoint(first, stop=True)
    jobs.env.set_state_backend(MemoryStateBackend())
    second = jobs.counting("lasting", savepoint=uri)
    jobs.source.add(*readings())
    second.process_all_available()
    assert jobs.values(second) == {2: len(KEYS)}
    assert second.state_root.startswith("driver:")
