"""The check of a running job's answers against its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from benchmarks.closed_loop import WrongAnswerError
from benchmarks.mixed.history import Answers, History
from benchmarks.streaming.dataset import Dataset

if TYPE_CHECKING:
    from pathlib import Path

COUNTS = np.array([[1, 2], [0, 1], [3, 1]])
TOTALS = np.array([[10, -20], [0, 5], [7, 1]])


def history() -> History:
    """Two keys over a cycle of three batches; the second batch has no rows of key 0."""
    return History(COUNTS, TOTALS)


def answers(*each: tuple[int, int, int]) -> Answers:
    """Key number, count and total of each."""
    kept = Answers()
    for number, count, total in each:
        kept.keep(number, count, total)
    return kept


def test_sums_of_whole_batches_are_found_in_the_history() -> None:
    found = history().batches_of(answers((1, 2, -20), (1, 3, -15), (0, 4, 17), (1, 4, -14)), 3)
    assert found.tolist() == [1, 2, 3, 3]


def test_an_answer_is_of_the_earliest_batch_with_its_sums() -> None:
    assert history().batches_of(answers((0, 1, 10)), 3).tolist() == [1]


def test_a_key_without_rows_is_zero() -> None:
    assert history().batches_of(answers((0, 0, 0)), 3).tolist() == [0]


def test_every_further_cycle_adds_the_same() -> None:
    counts, totals = history().after(7)
    assert counts.tolist() == [2 * 4 + 1, 2 * 4 + 2]
    assert totals.tolist() == [2 * 17 + 10, 2 * -14 - 20]
    assert history().batches_of(answers((0, 9, 44)), 7).tolist() == [7]


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param((1, 2, -19), id="another total"),
        pytest.param((0, 2, 12), id="a part of a batch"),
        pytest.param((0, 2, -20), id="another key's"),
        pytest.param((1, 6, -34), id="a later batch"),
        pytest.param((1, 1 << 39, 0), id="an impossible count"),
    ],
)
def test_sums_that_a_key_never_had_are_wrong(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(WrongAnswerError, match=f"1 of 2 answers .* key {wrong[0]} "):
        history().batches_of(answers((1, 2, -20), wrong), 3)


def test_the_final_state_is_right_only_if_every_key_has_all_batches() -> None:
    history().check_end([(4, 17), (4, -14)], 3)
    with pytest.raises(WrongAnswerError, match="1 of 2 keys are wrong after 3 batches: sensor_1"):
        history().check_end([(4, 17), (3, -15)], 3)
    with pytest.raises(WrongAnswerError, match="sensor_0 is None"):
        history().check_end([None, (4, -14)], 3)


def test_the_history_of_a_dataset_ends_with_its_totals(tmp_path: Path) -> None:
    dataset = Dataset(tmp_path / "data", batches=3, rows_per_batch=500, keys=20)
    counts, totals = History.of(dataset).after(3)
    assert counts.tolist() == dataset.totals(3).counts.tolist()
    assert totals.tolist() == dataset.totals(3).sums.tolist()
