"""The endless supply of batches for a streaming query."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from benchmarks.mixed.supply import Supply
from benchmarks.streaming.dataset import FILES_PER_BATCH, Dataset
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """Three small batches, written."""
    dataset = Dataset(tmp_path / "all", batches=3, rows_per_batch=40, keys=5)
    dataset.write()
    return dataset


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The checkpoint folder of a query that has begun no batch."""
    return tmp_path / "checkpoint"


@pytest.fixture
def supply(dataset: Dataset, tmp_path: Path, checkpoint: Path) -> Iterator[Supply]:
    """A started supply."""
    supply = Supply(dataset, tmp_path / "supply", checkpoint)
    supply.start()
    yield supply
    supply.stop()


def begin(checkpoint: Path, batch: int) -> None:
    """Records that the query has begun a batch."""
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    (checkpoint / "offsets" / str(batch)).touch()


def _has_supplied(supply: Supply, batches: int) -> bool:
    return supply.supplied == batches


def batches(supply: Supply) -> list[Path]:
    """The readable batches, in order."""
    return sorted(supply.pattern.parent.glob(supply.pattern.name))


def test_batches_are_there_before_the_query_begins(supply: Supply) -> None:
    assert supply.supplied == len(batches(supply)) > 0
    for batch in batches(supply):
        assert len(list(batch.iterdir())) == FILES_PER_BATCH


def test_each_begun_batch_is_replaced_by_a_new_one(supply: Supply, checkpoint: Path) -> None:
    ahead = supply.supplied
    for batch in range(5):
        begin(checkpoint, batch)
        until(partial(_has_supplied, supply, batch + 1 + ahead))


def test_batches_repeat_those_of_the_dataset_in_newer_files(
    supply: Supply, checkpoint: Path, dataset: Dataset
) -> None:
    begin(checkpoint, 2)
    until(lambda: supply.supplied > 4)
    first, again = batches(supply)[1], batches(supply)[1 + dataset.batches]
    for old, new in zip(sorted(first.iterdir()), sorted(again.iterdir()), strict=True):
        assert pq.read_table(old).equals(pq.read_table(new))
        assert new.stat().st_mtime > old.stat().st_mtime


def test_old_batches_are_deleted_and_new_ones_are_kept(supply: Supply, checkpoint: Path) -> None:
    begin(checkpoint, 40)
    until(lambda: len(batches(supply)) < 10 and supply.supplied > 41)
    assert batches(supply)[-1].name == f"{supply.supplied - 1:06}"
    assert int(batches(supply)[0].name) <= 40


def test_nothing_is_supplied_after_the_stop(supply: Supply, checkpoint: Path) -> None:
    supply.stop()
    supplied = supply.supplied
    begin(checkpoint, 9)
    supply.stop()
    assert supply.supplied == supplied == len(batches(supply))
