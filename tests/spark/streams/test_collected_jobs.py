"""Files of the jobs that `execute_and_collect` starts."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from tests.spark.folders import entries_of
from tests.spark.functions import COUNTS, READINGS, CountPerKey
from tests.spark.restarts.test_durable_jobs import reading

from queryable_state.streaming import Types

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.conftest import MakeFeed, NewEnvironment

    from queryable_state.streaming import DataStream, StreamExecutionEnvironment


def numbers(env: StreamExecutionEnvironment, divisor: int = 1) -> DataStream:
    """A stream of a chain and of an operator with state."""
    made = env.from_collection([1, 2, 3], Types.LONG()).map(lambda n: n // divisor, Types.LONG())
    return made.key_by(lambda n: n % 2, Types.LONG()).reduce(lambda one, two: one + two)


@pytest.mark.slow
def test_a_job_without_a_name_leaves_no_files(
    new_environment: NewEnvironment, tmp_path: Path
) -> None:
    """With state and without; read to the end, cut by a limit, and closed early."""
    directory = tmp_path / "state"
    directory.mkdir()
    env = new_environment(checkpoint_directory=str(directory), backend="heap")
    found = numbers(env).execute_and_collect()
    assert sorted(found) == [1, 2, 4]
    assert entries_of(directory) == []
    assert env.from_collection([1, 2, 3]).execute_and_collect(limit=2) == [1, 2]
    with numbers(env).execute_and_collect() as found:  # type: ignore[union-attr]  # without a limit
        next(found)
    assert entries_of(directory) == []


def test_a_named_job_is_resumed(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    source, directory = feed(READINGS), tmp_path / "state"
    env = new_environment(checkpoint_directory=str(directory), backend="heap")
    for expected in (1, 2):
        source.add(reading("a"))
        keyed = env.from_dataframe(source.dataframe()).key_by("sensor")
        counts = keyed.process(CountPerKey(), COUNTS).uid("counts")
        with counts.execute_and_collect("counting") as found:  # type: ignore[union-attr]
            assert next(found)[1] == expected
            found.job.process_all_available()
    assert [each.name for each in entries_of(directory)] == ["counting"]


def test_a_failed_job_without_a_name_keeps_its_files_and_names_them(
    new_environment: NewEnvironment, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "state"
    env = new_environment(checkpoint_directory=str(directory), backend="heap")
    found = numbers(env, divisor=0).execute_and_collect()
    with (
        caplog.at_level(logging.WARNING, "queryable_state.streaming"),
        pytest.raises(Exception, match="ZeroDivisionError"),
    ):
        list(found)
    (folder,) = entries_of(directory)
    kept = [each.getMessage() for each in caplog.records if "has failed" in each.getMessage()]
    assert [str(folder) in text for text in kept] == [True]
