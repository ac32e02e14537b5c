"""Jobs that start from a retained checkpoint of a job of another name."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.folders import files_of
from tests.spark.functions import COUNTS, READINGS, CountPerKey

from queryable_state.wire.errors import RestoreMismatchError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from tests.spark.conftest import Connect, MakeFeed
    from tests.spark.feed import Feed

    from queryable_state.streaming import JobClient, StreamExecutionEnvironment

KEYS = ["a", "b", "c"]
RETAINED = "spark.sql.streaming.minBatchesToRetain"


@pytest.fixture
def few_batches_retained(spark: SparkSession) -> Iterator[None]:
    """Spark's logs have the newest two batches only."""
    spark.conf.set(RETAINED, "2")
    yield
    spark.conf.unset(RETAINED)


def add(source: Feed, *keys: str) -> None:
    source.add(*({"sensor": key, "temperature": 1.0} for key in keys))


def counting(env: StreamExecutionEnvironment, source: Feed, name: str, **options: Any) -> JobClient:
    keyed = env.from_dataframe(source.dataframe()).uid("readings").key_by("sensor")
    keyed.process(CountPerKey(), COUNTS).uid("counts")
    job = env.execute_async(name, **options)
    job.process_all_available()
    return job


def counts(connect: Connect, job: JobClient) -> list[int | None]:
    found = connect(job).get_kv_states(job.job_id, "count", KEYS)
    return [None if state is None else state.value() for state in found]


def content_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in files_of(folder)}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.usefixtures("few_batches_retained")
def test_a_job_starts_from_a_checkpoint_of_another_one(
    new_environment: Any, feed: MakeFeed, connect: Connect, tmp_path: Path, backend: str
) -> None:
    """Spark has removed the logs of the batch; the old job goes on from its own files."""
    env = new_environment(checkpoint_directory=str(tmp_path / "state"), backend=backend)
    source = feed(READINGS)
    for _ in range(3):
        add(source, "a", "b")
    old = counting(env, source, "old")
    assert old.trigger_checkpoint().state == "completed"
    for _ in range(5):
        add(source, "a")
        old.process_all_available()
    assert counts(connect, old) == [8, 3, None]
    old.cancel()
    root = Path(old.state_root)
    assert not (root / "spark/offsets/2").exists()
    before = content_of(root)

    # The input behind the checkpoint is read again: without the state the counts would be less.
    add(source, "c")
    env.set_parallelism(3)
    new = counting(env, source, "new", savepoint=str(root / "chk-1"))
    assert new.job_id != old.job_id
    assert counts(connect, new) == [8, 3, 1]
    assert content_of(root) == before
    assert new.trigger_checkpoint().state == "completed"
    new.cancel()
    env.set_parallelism(2)
    assert counts(connect, counting(env, source, "old")) == [8, 3, 1]

    env = new_environment(checkpoint_directory=str(tmp_path / "state"), backend=backend)
    shutil.rmtree(root)
    add(source, "b")
    again = counting(env, source, "new", savepoint=str(root / "chk-1"))
    assert again.job_id == new.job_id
    assert counts(connect, again) == [8, 4, 1]


def totals(env: StreamExecutionEnvironment, source: Feed, name: str, **options: Any) -> JobClient:
    """A job with a stateful operator of Spark upstream; Spark's checkpoint has its state."""
    frame = source.dataframe().groupBy("sensor").count()
    keyed = env.from_dataframe(frame).key_by("sensor", order_by=None)
    keyed.as_queryable_state("total").uid("total")
    job = env.execute_async(name, **options)
    job.process_all_available()
    return job


@pytest.mark.slow
def test_state_of_spark_comes_from_its_checkpoint_as_long_as_that_has_it(
    new_environment: Any, feed: MakeFeed, connect: Connect, tmp_path: Path
) -> None:
    """Spark's checkpoint is at a location of its own, which the metadata names."""
    env = new_environment(checkpoint_directory=str(tmp_path / "state")).set_parallelism(2)
    location = tmp_path / "location"
    source = feed(READINGS)
    add(source, "a", "a", "b")
    old = totals(env, source, "old", checkpoint_location=str(location))
    assert old.trigger_checkpoint().state == "completed"
    add(source, "a")
    old.process_all_available()
    old.cancel()
    checkpoint = f"{old.state_root}/chk-1"
    new = totals(env, source, "new", savepoint=checkpoint)
    found = connect(new).get_kv_states(new.job_id, "total", ["a", "b"])
    assert [state and tuple(state.value()) for state in found] == [("a", 3), ("b", 1)]
    new.cancel()

    # As the maintenance of Spark's state stores does, once a minute.
    for delta in location.glob("state/*/*/1.delta"):
        delta.unlink()
    with pytest.raises(RestoreMismatchError, match=r"no longer has state/.*minBatchesToRetain"):
        totals(env, source, "third", savepoint=checkpoint)
    shutil.move(location, tmp_path / "elsewhere")
    with pytest.raises(RestoreMismatchError, match=r"'old' .*is not in .*/spark or .*/location\."):
        totals(env, source, "third", savepoint=checkpoint)
    assert not (tmp_path / "state/third").exists()
