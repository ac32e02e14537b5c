"""The files of limits and readings, and the figures that the final state is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from benchmarks.streaming.dataset import LimitsDataset

if TYPE_CHECKING:
    from pathlib import Path

BATCHES = 4


@pytest.fixture
def dataset(tmp_path: Path) -> LimitsDataset:
    """Four small batches, written."""
    dataset = LimitsDataset(tmp_path / "data", batches=BATCHES, rows_per_batch=200, keys=30)
    dataset.write()
    return dataset


def rows_of(dataset: LimitsDataset, batch: int, part: int) -> list[tuple[str, int]]:
    """Keys and values of one file."""
    table = pq.read_table(dataset.folder / f"{batch:04}-{part}.parquet")
    return list(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


def test_a_batch_has_one_limit_for_a_tenth_of_the_keys(dataset: LimitsDataset) -> None:
    for batch in range(BATCHES):
        limited = [key for key, _ in rows_of(dataset, batch, 0)]
        assert len(limited) == len(set(limited)) == 3
        assert len(rows_of(dataset, batch, 1)) == 197


def test_the_figures_are_those_of_readings_joined_with_the_newest_limit(
    dataset: LimitsDataset,
) -> None:
    state: dict[str, tuple[int, int, int]] = {}
    for batch in range(BATCHES):
        for key, limit in rows_of(dataset, batch, 0):
            state[key] = (limit, *state.get(key, (0, 0, 0))[1:])
        for key, value in rows_of(dataset, batch, 1):
            if key in state:
                limit, readings, excess = state[key]
                state[key] = (limit, readings + 1, excess + value - limit)
    assert dataset.final_rows(BATCHES, 1) == state


def test_the_figures_of_a_part_of_the_keys_are_those_of_all_keys(dataset: LimitsDataset) -> None:
    every = dataset.final_rows(BATCHES, 1)
    names = [f"sensor_{number}" for number in range(0, 30, 7)]
    assert dataset.final_rows(BATCHES, 7) == {name: every[name] for name in names if name in every}
