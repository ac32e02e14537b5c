"""What a job is not started from: said before anything is written."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.counting_jobs import KEYS, Jobs, readings
from tests.spark.feed import Feed
from tests.spark.functions import COUNTS, READINGS, CountPerKey

from queryable_state.streaming import StreamExecutionEnvironment, Types
from queryable_state.wire.errors import CheckpointError, InvalidRequestError, RestoreMismatchError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.spark.conftest import MakeFeed


@pytest.fixture(scope="module")
def uri(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A savepoint of a job that counts, at max parallelism 128."""
    folder = tmp_path_factory.mktemp("refusals")
    source = Feed(spark, folder / "feed", READINGS)
    source.add(*readings())
    env = StreamExecutionEnvironment.get_execution_environment(spark)
    keyed = env.from_dataframe(source.dataframe()).key_by("sensor")
    keyed.process(CountPerKey(), COUNTS).uid("counts").name("the counter")
    job = env.execute_async("refused", checkpoint_location=str(folder / "job"))
    job.process_all_available()
    return job.stop_with_savepoint(False, str(folder)).result()


def test_a_savepoint_of_another_job(jobs: Jobs, uri: str) -> None:
    keyed = jobs.env.from_dataframe(jobs.source.dataframe()).key_by("sensor")
    keyed.aggregate_max("temperature", queryable_name="highest").uid("highest")
    with pytest.raises(RestoreMismatchError, match=r"'counts' \(the counter\).*'highest'.*no uid"):
        jobs.start("new", savepoint=uri, allow_non_restored_state=True)
    assert not (jobs.folder / "new").exists()


def test_another_max_parallelism(jobs: Jobs, uri: str) -> None:
    jobs.env.set_max_parallelism(64)
    with pytest.raises(RestoreMismatchError, match="max parallelism 64, but 128 in savepoint"):
        jobs.counting("new", savepoint=uri)


def test_a_key_of_another_type(jobs: Jobs, uri: str, feed: MakeFeed) -> None:
    frame = feed("sensor long, temperature double").dataframe()
    keyed = jobs.env.from_dataframe(frame).key_by("sensor")
    keyed.process(CountPerKey(), Types.ROW_NAMED(["s", "c"], ["long", "long"])).uid("counts")
    with pytest.raises(RestoreMismatchError, match="its key type was string and is bigint"):
        jobs.start("new", savepoint=uri)


def test_an_empty_name_of_a_savepoint(jobs: Jobs) -> None:
    """As from a variable that is not set: the job would start without its state."""
    with pytest.raises(InvalidRequestError, match="is an empty text"):
        jobs.counting("new", savepoint="")
    assert not (jobs.folder / "new").exists()


def test_a_place_where_no_savepoint_is(jobs: Jobs) -> None:
    with pytest.raises(RestoreMismatchError, match="is not a complete savepoint"):
        jobs.counting("new", savepoint=str(jobs.folder / "nothing"))


def test_a_savepoint_without_its_progress(jobs: Jobs, uri: str, tmp_path: Path) -> None:
    broken = shutil.copytree(Path(uri), tmp_path / "broken")
    shutil.rmtree(broken / "spark/commits")
    with pytest.raises(RestoreMismatchError, match="broken: it has no spark/commits/0"):
        jobs.counting("new", savepoint=str(broken))


def test_a_location_with_another_history(jobs: Jobs, uri: str) -> None:
    jobs.source.add(*readings())
    job = jobs.counting("used")
    job.process_all_available()
    job.cancel()
    with pytest.raises(RestoreMismatchError, match="would mix two histories"):
        jobs.counting("used", savepoint=uri)
    again = jobs.counting("used")
    again.process_all_available()
    assert jobs.values(again) == {1: len(KEYS)}


def test_a_job_without_a_lasting_place(jobs: Jobs, uri: str) -> None:
    keyed = jobs.env.from_dataframe(jobs.source.dataframe()).key_by("sensor")
    keyed.process(CountPerKey(), COUNTS).uid("counts")
    with pytest.raises(InvalidRequestError, match="no durable location"):
        jobs.env.execute_async("new", savepoint=uri)


def test_streams_that_were_not_taken(jobs: Jobs, uri: str) -> None:
    with pytest.raises(InvalidRequestError, match="to_dataframe"):
        jobs.env.restore_savepoint(uri, str(jobs.folder / "new"))


def test_a_savepoint_into_an_empty_directory_name(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty name is that of no folder, and not that of the driver's working directory."""
    monkeypatch.chdir(tmp_path)
    job = jobs.counting("nowhere")
    with pytest.raises(CheckpointError, match=r"no directory .*state\.savepoints\.dir"):
        job.trigger_savepoint("").result()
    assert list(tmp_path.glob("savepoint-*")) == []
