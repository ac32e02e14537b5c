"""Batches for a job that never lacks any."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from benchmarks.mixed.supply import Supply
from benchmarks.streaming.dataset import FILES_PER_BATCH, Dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DEADLINE_S = 20.0


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """Three small batches, written."""
    dataset = Dataset(tmp_path / "all", batches=3, rows_per_batch=40, keys=5)
    dataset.write()
    return dataset


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A query's folder, without a batch begun."""
    return tmp_path / "checkpoint"


@pytest.fixture
def supply(dataset: Dataset, tmp_path: Path, checkpoint: Path) -> Iterator[Supply]:
    """A started supply."""
    supply = Supply(dataset, tmp_path / "supply", checkpoint)
    supply.start()
    yield supply
    supply.stop()


def begin(checkpoint: Path, batch: int) -> None:
    """Has the query begin a batch."""
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    (checkpoint / "offsets" / str(batch)).touch()


def wait_until(condition: Callable[[], bool]) -> None:
    """Fails where it does not come true in time."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _has_given(supply: Supply, batches: int) -> bool:
    return supply.given == batches


def batches(supply: Supply) -> list[Path]:
    """What can be read, in order."""
    return sorted(supply.pattern.parent.glob(supply.pattern.name))


def test_batches_are_there_before_the_query_begins(supply: Supply) -> None:
    assert supply.given == len(batches(supply)) > 0
    for batch in batches(supply):
        assert len(list(batch.iterdir())) == FILES_PER_BATCH


def test_what_the_query_begins_is_made_up_for(supply: Supply, checkpoint: Path) -> None:
    ahead = supply.given
    for batch in range(5):
        begin(checkpoint, batch)
        wait_until(partial(_has_given, supply, batch + 1 + ahead))


def test_batches_repeat_those_of_the_dataset_in_newer_files(
    supply: Supply, checkpoint: Path, dataset: Dataset
) -> None:
    begin(checkpoint, 2)
    wait_until(lambda: supply.given > 4)
    first, again = batches(supply)[1], batches(supply)[1 + dataset.batches]
    for old, new in zip(sorted(first.iterdir()), sorted(again.iterdir()), strict=True):
        assert pq.read_table(old).equals(pq.read_table(new))
        assert new.stat().st_mtime > old.stat().st_mtime


def test_what_was_taken_long_ago_is_removed_and_nothing_that_was_not(
    supply: Supply, checkpoint: Path
) -> None:
    begin(checkpoint, 40)
    wait_until(lambda: len(batches(supply)) < 10 and supply.given > 41)
    assert batches(supply)[-1].name == f"{supply.given - 1:06}"
    assert int(batches(supply)[0].name) <= 40


def test_nothing_is_given_after_the_stop(supply: Supply, checkpoint: Path) -> None:
    supply.stop()
    given = supply.given
    begin(checkpoint, 9)
    supply.stop()
    assert supply.given == given == len(batches(supply))
