"""The sums of every key after every batch, and the check of answers against them."""

from __future__ import annotations

import random
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from benchmarks.closed_loop import WrongAnswerError
from benchmarks.streaming.dataset import key_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from benchmarks.streaming.dataset import Dataset

    Numbers = npt.NDArray[np.int64]

_MOST_COUNT = 1 << 40


@dataclass(frozen=True)
class Answers:
    """Answers in order: key number, count and total of each."""

    numbers: array[int] = field(default_factory=lambda: array("q"))
    counts: array[int] = field(default_factory=lambda: array("q"))
    totals: array[int] = field(default_factory=lambda: array("q"))

    def keep(self, number: int, count: int, total: int) -> None:
        """Adds one answer."""
        self.numbers.append(number)
        self.counts.append(count)
        self.totals.append(total)


class History:
    """Counts and totals of every key after each number of batches, from 0 on.

    The supply repeats the batches of a dataset, so every cycle adds the same.
    """

    def __init__(self, counts: Numbers, totals: Numbers) -> None:
        """Takes the additions of each batch of a cycle as rows, by key."""
        self._counts = _sums_from_zero(counts)
        self._totals = _sums_from_zero(totals)

    @classmethod
    def of(cls, dataset: Dataset) -> Self:
        """The history of a supply from a dataset."""
        additions = [dataset.additions(batch) for batch in range(dataset.batches)]
        return cls(
            np.stack([each.counts for each in additions]),
            np.stack([each.sums for each in additions]),
        )

    def order(self) -> list[int]:
        """All key numbers, shuffled: the look-up order of a closed loop."""
        numbers = list(range(self._counts.shape[1]))
        random.Random(11).shuffle(numbers)
        return numbers

    def after(self, batches: int) -> tuple[Numbers, Numbers]:
        """Counts and totals by key after a number of batches."""
        cycles, rest = divmod(batches, len(self._counts) - 1)
        return (
            cycles * self._counts[-1] + self._counts[rest],
            cycles * self._totals[-1] + self._totals[rest],
        )

    def batches_of(self, answers: Answers, most: int) -> Numbers:
        """The number of batches, at most `most`, after which each answer was true.

        Raises `WrongAnswerError` for an answer that never was: a part of a batch, another key's.
        """
        states = [self.after(batches) for batches in range(most + 1)]
        keys = len(states[0][0])
        counts = np.stack([state[0] for state in states], axis=1)
        totals = np.stack([state[1] for state in states], axis=1)
        # Ascending by key, then by count: the count of a key never decreases.
        line = (counts + np.arange(keys)[:, None] * _MOST_COUNT).ravel()
        keys_and_counts = np.asarray(answers.numbers) * _MOST_COUNT + np.asarray(answers.counts)
        places = np.minimum(np.searchsorted(line, keys_and_counts), len(line) - 1)
        right = (line[places] == keys_and_counts) & (
            totals.ravel()[places] == np.asarray(answers.totals)
        )
        if not right.all():
            wrong = int(np.flatnonzero(~right)[0])
            number = answers.numbers[wrong]
            raise WrongAnswerError(
                f"{len(right) - int(right.sum())} of {len(right)} answers are not sums of "
                f"whole batches; the answer for key {number} has count {answers.counts[wrong]}, "
                f"total {answers.totals[wrong]}"
            )
        found: Numbers = places % (most + 1)
        return found

    def check_end(self, found: Sequence[tuple[int, int] | None], batches: int) -> None:
        """Raises `WrongAnswerError` unless every key has its sums after all batches."""
        counts, totals = self.after(batches)
        wanted = list(zip(counts.tolist(), totals.tolist(), strict=True))
        wrong = [n for n, each in enumerate(zip(found, wanted, strict=True)) if each[0] != each[1]]
        if wrong:
            first = wrong[0]
            raise WrongAnswerError(
                f"{len(wrong)} of {len(wanted)} keys are wrong after {batches} batches: "
                f"{key_names(len(wanted))[first]} is {found[first]}, should be {wanted[first]}"
            )


def _sums_from_zero(additions: Numbers) -> Numbers:
    return np.concatenate([np.zeros_like(additions[:1]), np.cumsum(additions, axis=0)])
